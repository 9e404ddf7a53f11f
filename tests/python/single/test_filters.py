"""Jobs where the kernel, or a filter before it, refuses what they would like to use."""

from __future__ import annotations

import platform
import subprocess

import pytest
from conftest import PYTHON, launcher

# Runs a command whose memfd_create fails: number of the call, errno, command.
REFUSING = """
import ctypes, os, struct, sys
def step(code, if_true, if_false, value):
    return struct.pack("HBBI", code, if_true, if_false, value)
text = step(0x20, 0, 0, 0) + step(0x15, 1, 0, int(sys.argv[1])) + step(6, 0, 0, 0x7fff0000)
text += step(6, 0, 0, 0x50000 | int(sys.argv[2]))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
steps = ctypes.create_string_buffer(text, len(text))
program = Program(len(text) // 8, ctypes.addressof(steps))
call = ctypes.CDLL(None, use_errno=True).prctl
if call(38, 1, 0, 0, 0) != 0 or call(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit(77)
os.execv(sys.argv[3], sys.argv[3:])
"""
NUMBERS = {"x86_64": 319, "aarch64": 279}

RANK = """
from horovod.common import life_cycle as hvd, objects
hvd.init()
print(objects.allgather_object(hvd.rank()))
"""


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]], ids=["static", "elastic"])
@pytest.mark.parametrize("error", [1, 38], ids=["EPERM", "ENOSYS"])
def test_without_memfd(elastic: list[str], error: int) -> None:
    number = NUMBERS.get(platform.machine())
    if number is None:
        pytest.skip(f"the number of memfd_create on {platform.machine()} is not known here")
    job = [PYTHON, *launcher()] if launcher()[0] != PYTHON else launcher()
    command = [PYTHON, "-c", REFUSING, str(number), str(error), *job, "-np", "2", *elastic, PYTHON, "-c", RANK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77:
        pytest.skip("no seccomp here")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}]<stdout>:[0, 1]" for rank in (0, 1)]
