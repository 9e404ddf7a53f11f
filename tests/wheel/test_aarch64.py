"""The wheel that is cross-compiled for aarch64: what is in it, and jobs in a bare root file system under QEMU."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILT
from test_contents import (  # what holds for every processor, of the wheel below
    elf_files,
    readelf,
    test_every_transport_is_inside,  # noqa: F401
    test_headers_for_plugins_are_inside,  # noqa: F401
    test_it_is_small,  # noqa: F401
    test_it_loads_nothing_but_the_c_library_and_itself,  # noqa: F401
    test_licenses_of_what_is_compiled_in_are_inside,  # noqa: F401
    test_metadata,  # noqa: F401
    test_one_wheel_is_for_every_python_from_3_9_on,  # noqa: F401
    test_symbols_are_no_newer_than_its_glibc,  # noqa: F401
    test_types_are_inside,  # noqa: F401
    unpacked,  # noqa: F401
)
from test_install import JOB

EMULATOR = shutil.which("qemu-aarch64-static")
LIMIT_S = 1800  # debootstrap fetches 60 MB; everything below runs a tenth as fast as it would
PACKAGES = "--include=python3,python3-pip,python3-cloudpickle,python3-packaging,python3-psutil,python3-yaml"
# Programs of the processor are run by the emulator, in a user namespace of its own: the machine's settings stay.
ENTER = rf"""
set -e
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":aarch64:M::$magic:$mask:{EMULATOR}:PF" >/proc/sys/fs/binfmt_misc/register
mount --rbind /proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" sh -c "$1"
"""
INSIDE = """
set -e
python3 -m pip install -q --no-index --no-deps --break-system-packages --root-user-action=ignore /roda/*.whl
roda-info
python3 /roda/job.py
for transport in "" tcp gloo; do HOROVOD_CPU_OPERATIONS=$transport horovodrun -np 2 python3 /roda/job.py; done
roda-perf -n 2 -c all -s 1000,262144 -w 0 --iterations 1 -t shm,tcp,gloo
dtypes=uint8,int64,float16,bfloat16,float32,float64
roda-perf -n 2 -s 100000 -w 0 --iterations 1 -d $dtypes -o sum,adasum,min,max,product
"""


@pytest.fixture(scope="session")
def wheel() -> Path:
    found = sorted(BUILT.glob("roda_horovod-*aarch64.whl"))
    if not found:
        pytest.skip("there is no wheel: tools/build_wheels.sh aarch64 makes it")
    return found[-1]


def test_all_that_is_compiled_is_for_that_processor(unpacked: Path) -> None:  # noqa: F811
    for file in elf_files(unpacked):
        assert "AArch64" in readelf("--file-header", file), file


def emulated(root: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell's line in a root file system of the processor."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ENTER, root, line],
        env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Debian's packages for aarch64, unpacked: nothing of them has to run for that."""
    if EMULATOR is None or shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("qemu-user-static or debootstrap is not installed, or this is not root")
    folder = tmp_path / "root"
    made = subprocess.run(
        ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", PACKAGES, "bookworm", folder],
        capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("debootstrap can't fetch Debian for aarch64")
    unpack = 'for each in "$0"/var/cache/apt/archives/*.deb; do dpkg-deb --fsys-tarfile "$each" | tar -xC "$0" '
    unpack += "--keep-directory-symlink; done; rm -f $0/proc; mkdir -p $0/proc"
    subprocess.run(["sh", "-c", unpack, folder], check=True, timeout=LIMIT_S)
    tried = emulated(folder, "uname -m")
    if tried.stdout != "aarch64\n":
        pytest.skip(f"no programs for aarch64 run here: {tried.stderr}")
    return folder


def test_jobs_of_one_and_two_ranks_under_an_emulator(wheel: Path, root: Path) -> None:
    (root / "roda").mkdir()
    shutil.copy(wheel, root / "roda")
    (root / "roda" / "job.py").write_text(JOB)
    done = emulated(root, INSIDE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0 of 1" in done.stdout
    assert done.stdout.count("rank 0 of 2") == done.stdout.count("rank 1 of 2") == 3
