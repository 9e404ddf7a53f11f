"""The wheel in bare root file systems of other releases of Debian: no compiler, another glibc, another Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from roots import CERTIFICATES, LIMIT_S, make_root, needs_debootstrap
from test_install import JOB

INSIDE = """
set -e
python3 -m venv /environment
/environment/bin/pip install -q /roda/*.whl
export PATH=/environment/bin:$PATH
if command -v cc; then exit 1; fi
for transport in "" tcp gloo; do HOROVOD_CPU_OPERATIONS=$transport horovodrun -np 2 python /roda/job.py; done
"""


@needs_debootstrap
@pytest.mark.parametrize("release", ["bullseye", "trixie"])
def test_two_ranks_in_a_bare_root(release: str, wheel: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_root(release, root)
    (root / "roda").mkdir()
    shutil.copy(wheel, root / "roda")
    (root / "roda" / "job.py").write_text(JOB)
    line = f"mount --rbind /proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot {root} sh -c '{INSIDE}'"
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PIP_CERT": CERTIFICATES, "HOME": "/root"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", line],
        env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rank 0 of 2") == done.stdout.count("rank 1 of 2") == 3
