"""What a process opens of the plugins that are installed, and what that leaves of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import PYTHON, Launch
from horovod import _roda

needs_ucx = pytest.mark.skipif(not _roda.transport_usable("ucx"), reason="the ucx transport is not usable")

LOOK = """
from pathlib import Path
from horovod.common.basics import HorovodBasics
HorovodBasics().init()
taken = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigCgt"))
print("libucp" in Path("/proc/self/maps").read_text(), int(taken.split()[1], 16) & 1)
"""


def run(code: str, *before: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )


@needs_ucx
@pytest.mark.parametrize("named", ["", "shm"])
def test_a_library_that_nobody_named_is_not_loaded(named: str) -> None:
    assert run(LOOK, HOROVOD_CPU_OPERATIONS=named).stdout == "False 0\n"


@needs_ucx
def test_the_hangup_signal_stays_the_programs_own() -> None:
    assert run(LOOK, HOROVOD_CPU_OPERATIONS="ucx").stdout == "True 0\n"


@needs_ucx
def test_a_probe_without_descriptors_is_a_reason_not_an_end() -> None:
    code = "from horovod import _roda; print([line for line in _roda.describe_plugins().splitlines() if 'ucx' in line])"
    done = run(code, "sh", "-c", 'ulimit -n 12; exec "$@"', "sh")
    assert done.returncode == 0, done.stderr
    assert "not usable" in done.stdout
    assert "ulimit -n" in done.stdout


INIT = "from horovod.common.basics import HorovodBasics; HorovodBasics().init()"


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("HOROVOD_LOG_LEVEL", "loud", "HOROVOD_LOG_LEVEL=loud is none of trace debug info"),
        ("HOROVOD_PLUGIN_PATH", "/nowhere", "HOROVOD_PLUGIN_PATH names /nowhere, which is no folder here"),
        ("HOROVOD_GLOO_IFACE", "eth99", "no network interface 'eth99' is up with an address; there are: "),
    ],
)
def test_values_that_mean_nothing_are_told(variable: str, value: str, told: str) -> None:
    done = run(INIT, **{variable: value})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(told) == 1


def test_info_is_a_line_a_job_and_debug_a_line_a_rank() -> None:
    (line,) = run(INIT, HOROVOD_LOG_LEVEL="info", OMP_NUM_THREADS="3").stdout.splitlines()
    parts = line.partition("[0]: ")[2].split("; ")
    assert parts[0] == f"Roda {_roda.version()}: 1 rank on 1 host"
    assert parts[1].startswith("transports: ")
    assert any(part.startswith("allreduce by ") for part in parts)
    assert re.fullmatch(r"OMP_NUM_THREADS=3, \d+ cores? for 1 rank of this host", parts[-1])
    assert "rank 0 of 1, local 0 of 1, cross 0 of 1" in run(INIT, HOROVOD_LOG_LEVEL="debug").stdout


@pytest.mark.parametrize("value", ["shm+", "+shm", "shm++tcp"])
def test_a_transport_without_a_name_is_refused(value: str) -> None:
    done = run(INIT, HOROVOD_CPU_OPERATIONS=value)
    assert done.returncode != 0
    assert f"HOROVOD_CPU_OPERATIONS='{value}' lacks a name" in done.stderr


WITHOUT_DESCRIPTORS = """
import os, resource
import horovod.torch as hvd
hvd.init()
if hvd.rank() == 1:
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, used + 8))
try:
    hvd.barrier()
except RuntimeError as error:
    print(error)
"""


@needs_ucx
def test_a_group_without_descriptors_is_an_error_on_all_ranks(horovodrun: Launch) -> None:
    done = horovodrun(
        "-np", "2", PYTHON, "-c", WITHOUT_DESCRIPTORS, env={**os.environ, "HOROVOD_CPU_OPERATIONS": "ucx"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("more file descriptors than this process may open") == 2


@pytest.mark.parametrize("named", ["", "gloo", "tcp+shm"])
def test_transports_that_no_rank_can_use_cost_no_second_plan(horovodrun: Launch, named: str) -> None:
    """As MPI's, which connects no rank that this launcher starts."""
    variables = {**os.environ, "HOROVOD_LOG_LEVEL": "debug", "HOROVOD_CPU_OPERATIONS": named}
    done = horovodrun("-np", "2", PYTHON, "-c", INIT, env=variables)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("planned with the transports") == 2, "one a rank"
