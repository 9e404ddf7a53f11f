"""The scripts of docs/running.md, as far as one host can run them: its hosts are this one, and a rank says hello.

torchrun has a test of its own; pods and the scripts of examples/hpc have theirs in tests/hosts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from horovod.common.util import mpi_built

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "running.md"
PORT = str(20_000 + os.getpid() % 10_000)
TRAIN = """
import os
from horovod.common.basics import HorovodBasics
hvd = HorovodBasics()
hvd.init()
with open(f"told.{hvd.rank()}", "w") as file:
    file.write(str(hvd.size()))
"""


def blocks(title: str) -> list[str]:
    section = PAGE.read_text().split(f"### {title}\n")[1].split("\n### ")[0].split("\n## ")[0]
    found = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    assert found, title
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with train.py, and programs that come first on the PATH."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def environment(place: Path, **more: str) -> dict[str, str]:
    marks = ("HOROVOD_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "LSB_", "PBS_", "RANK", "WORLD_SIZE", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(marks)}
    python = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return kept | python | {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"} | more


def start(place: Path, script: str, **more: str) -> subprocess.Popen[str]:
    script = script.replace("-np 8 -H host1:4,host2:4", "-np 2 -H localhost:2")
    script = script.replace("host1", "localhost").replace("29500", PORT)
    return subprocess.Popen(
        ["bash", "-ec", script], cwd=place, env=environment(place, **more), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(place: Path, size: int, *processes: subprocess.Popen[str]) -> None:
    try:
        for process in processes:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
    finally:
        for process in processes:
            process.kill()
    assert sorted((path.name, path.read_text()) for path in place.glob("told.*")) == [
        (f"told.{rank}", str(size)) for rank in range(size)
    ]


def test_hosts_that_ssh_reaches(place: Path) -> None:
    (script,) = blocks("Hosts that ssh reaches")
    finish(place, 2, start(place, script))


@pytest.mark.skipif(shutil.which("mpirun") is None or not mpi_built(), reason="mpi is not usable")
def test_mpirun(place: Path) -> None:
    (script,) = blocks("MPI")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    finish(place, 2, start(place, script, **allowed))


@pytest.mark.parametrize(
    ("index", "first", "count"),
    [("SLURM_ARRAY_TASK_ID", 0, "SLURM_ARRAY_TASK_COUNT"), ("PBS_ARRAY_INDEX", 0, None), ("SGE_TASK_ID", 1, None)],
)
def test_an_array_of_tasks(place: Path, index: str, first: int, count: str | None) -> None:
    """With Slurm, whose own count is there, also without WORLD_SIZE."""
    script = (ROOT / "examples" / "hpc" / "array.sh").read_text()
    script = script.replace("WORLD_SIZE=4", "" if count else "WORLD_SIZE=2")
    counted = {count: "2"} if count else {}
    finish(place, 2, *(start(place, script, **{index: str(first + task)}, **counted) for task in range(2)))
