"""Jobs that mpirun starts, with no launcher of ours or through ``horovodrun --mpi``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import horovod
import pytest
from conftest import Launch
from horovod.common.util import mpi_built

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or not mpi_built(), reason="no mpirun, or the mpi transport is not usable"
)

ROOT = Path(__file__).resolve().parents[3]
# mpirun cuts and joins the lines of different ranks: what they have to say goes to a file of each.
TELL = """
import os
def tell(word, *numbers):
    with open(f"{os.environ['TELL_FOLDER']}/{word}.{os.getpid()}", "a") as file:
        print(*numbers, file=file)
"""
# Without a framework, which takes longer to import than all that is tested here.
BASICS = "from horovod.common import life_cycle as hvd, objects\n"
HELLO = (
    TELL
    + BASICS
    + """
hvd.init()
total = sum(objects.allgather_object(hvd.rank() + 1))
tell("hello", hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), total)
"""
)
TORCH_HELLO = (
    TELL
    + """
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.full((1000,), hvd.rank() + 1.0), op=hvd.Sum)
tell("hello", hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), int(total[-1]))
"""
)
needs_mpi4py = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import mpi4py"], capture_output=True, check=False).returncode != 0,
    reason="mpi4py is not installed",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ranks tell; MPI hands its own environment on to the ranks of this host."""
    monkeypatch.setenv("TELL_FOLDER", str(tmp_path))
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    return tmp_path


def mpirun(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["mpirun", *arguments],
        env={**os.environ, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_ranks(count: int, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return mpirun(
        "-np", str(count), "-H", f"localhost:{count}", "-bind-to", "none", sys.executable, "-c", TELL + code,
        **variables,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str], word: str) -> list[list[int]]:
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [
        line for path in Path(os.environ["TELL_FOLDER"]).glob(f"{word}.*") for line in path.read_text().splitlines()
    ]
    return sorted([int(number) for number in line.split()] for line in lines)


@pytest.mark.parametrize("transport", ["", "mpi", "shm"])
def test_ranks_find_each_other_without_a_launcher_of_ours(transport: str) -> None:
    done = run_ranks(3, HELLO, HOROVOD_CPU_OPERATIONS=transport)
    assert said(done, "hello") == [[rank, 3, rank, 3, 6] for rank in range(3)]


def test_the_documented_lines(folder: Path) -> None:
    script = folder / "train.py"
    script.write_text(HELLO)
    line = "-np 4 -H localhost:4 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH "
    line += "-mca pml ob1 -mca btl ^openib"
    done = mpirun(*line.split(), sys.executable, str(script))
    assert said(done, "hello") == [[rank, 4, rank, 4, 10] for rank in range(4)]
    for told in folder.glob("hello.*"):
        told.unlink()
    hosts = folder / "hosts"
    hosts.write_text("localhost slots=2\n")
    script.write_text(TORCH_HELLO)
    done = mpirun("--allow-run-as-root", "-np", "2", "--hostfile", str(hosts), sys.executable, str(script))
    assert said(done, "hello") == [[rank, 2, rank, 2, 3] for rank in range(2)]


@pytest.mark.parametrize("threads_disable", ["0", "1"])
def test_init_follows_shutdown(threads_disable: str) -> None:
    code = HELLO + "hvd.shutdown()" + HELLO + "hvd.shutdown()\n"
    done = run_ranks(2, code, HOROVOD_CPU_OPERATIONS="mpi", HOROVOD_MPI_THREADS_DISABLE=threads_disable)
    assert said(done, "hello") == [[0, 2, 0, 2, 3]] * 2 + [[1, 2, 1, 2, 3]] * 2


def test_the_controller_by_name() -> None:
    assert len(said(run_ranks(2, HELLO, HOROVOD_CONTROLLER="MPI"), "hello")) == 2
    done = run_ranks(2, HELLO, HOROVOD_CONTROLLER="pigeons")
    assert done.returncode != 0
    assert "Unsupported controller type: HOROVOD_CONTROLLER='pigeons'" in done.stderr


def test_a_list_of_ranks_is_the_world() -> None:
    code = f"""
import os
{BASICS}
mine = int(os.environ["OMPI_COMM_WORLD_RANK"])
try:
    hvd.init(comm=[2, 0])
except ValueError as error:
    assert mine == 1 and "not among the ranks" in str(error), error
    tell("outside", mine)
else:
    tell("inside", mine, hvd.rank(), hvd.size(), sum(objects.allgather_object(mine)))
"""
    done = run_ranks(3, code, HOROVOD_CPU_OPERATIONS="mpi")
    assert said(done, "inside") == [[0, 1, 2, 2], [2, 0, 2, 2]]
    assert said(done, "outside") == [[1]]


@needs_mpi4py
def test_beside_mpi4py_with_a_communicator_and_sets_made_from_more() -> None:
    code = f"""
from mpi4py import MPI
from horovod.common.process_sets import ProcessSet
{BASICS}
world = MPI.COMM_WORLD
half = world.Split(color=world.rank % 2, key=world.rank)
sets = [ProcessSet(half), ProcessSet(range(0, world.size, 2)), ProcessSet(world.Dup()), ProcessSet([0])]
hvd.init(comm=world, process_sets=sets)
total = sum(objects.allgather_object(world.rank, process_set=sets[0]))
tell("sets", world.rank, *(each.process_set_id for each in sets), total)
assert world.allreduce(1) == world.size
hvd.shutdown()
hvd.init(comm=half)
tell("half", world.rank, hvd.rank(), hvd.size())
hvd.shutdown()
assert world.allreduce(1) == world.size
"""
    done = run_ranks(4, code, HOROVOD_CPU_OPERATIONS="mpi")
    assert said(done, "sets") == [[0, 1, 1, 0, 3, 2], [1, 2, 1, 0, 3, 4], [2, 1, 1, 0, 3, 2], [3, 2, 1, 0, 3, 4]]
    assert said(done, "half") == [[0, 0, 2], [1, 0, 2], [2, 1, 2], [3, 1, 2]]


@needs_mpi4py
def test_too_few_threads_are_refused() -> None:
    code = f"""
import mpi4py
mpi4py.rc.thread_level = "single"
from mpi4py import MPI
{BASICS}
try:
    hvd.init()
except ValueError as error:
    assert "MPI_THREAD_SERIALIZED is the least" in str(error), error
    tell("refused", MPI.COMM_WORLD.rank)
"""
    assert said(run_ranks(2, code), "refused") == [[0], [1]]


def test_a_killed_rank_ends_the_job() -> None:
    code = f"""
import os, signal
{BASICS}
hvd.init()
objects.allgather_object(1)
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
objects.allgather_object(1)
"""
    assert run_ranks(2, code, HOROVOD_CPU_OPERATIONS="mpi").returncode != 0


@needs_mpi4py
def test_survivors_of_a_killed_rank_end_although_mpi4py_finalises_mpi() -> None:
    code = f"""
from mpi4py import MPI
import os, signal
from horovod.common.exceptions import HorovodInternalError
{BASICS}
hvd.init()
try:
    objects.allgather_object(1)  # where rank 1 is through first, this fails elsewhere
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        objects.allgather_object(1)
except HorovodInternalError as error:
    assert "Rank 1" in str(error), error
    tell("survived", hvd.rank())
"""
    # In a recovery mode mpirun does not end the others itself.
    done = run_ranks(
        3, code, HOROVOD_CPU_OPERATIONS="mpi", HOROVOD_ABORT_TIMEOUT_SECONDS="2", OMPI_MCA_orte_enable_recovery="1"
    )
    assert said(done, "survived") == [[0], [2]]


@needs_mpi4py  # without it MPI_Init itself waits for the other rank
def test_a_rank_that_never_comes_is_a_time_out(folder: Path) -> None:
    code = f"""
from mpi4py import MPI
import os, time, pathlib
{BASICS}
done = pathlib.Path({str(folder / "over")!r})
if MPI.COMM_WORLD.rank == 1:
    while not done.exists():
        time.sleep(0.05)
    os._exit(0)
try:
    hvd.init(comm=[0, 1])
except ValueError as error:
    assert "every listed rank to start" in str(error), error
    tell("late", 1)
done.touch()
os._exit(0)
"""
    run_ranks(2, code, HOROVOD_GLOO_TIMEOUT_SECONDS="2")
    assert (folder / "over").exists()
    assert len(list(folder.glob("late.*"))) == 1


def test_naming_mpi_where_another_launcher_started_the_ranks(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", sys.executable, "-c", HELLO, env={**os.environ, "HOROVOD_CPU_OPERATIONS": "mpi"})
    assert done.returncode != 0
    assert "this rank was not started by an MPI launcher" in done.stderr


def test_ranks_of_another_launcher_know_that_mpi_is_there(horovodrun: Launch) -> None:
    """As in Horovod: built is one thing, enabled another. Nobody named it, so nobody is warned."""
    code = "import horovod.torch as hvd; hvd.init(); print(hvd.mpi_built(), hvd.mpi_enabled())"
    done = horovodrun("-np", "2", sys.executable, "-c", code)
    assert done.stdout.count("True False") == 2, done.stderr
    assert "mpi" not in done.stderr


def test_one_process_needs_no_launcher() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELLO],
        env={**os.environ, "HOROVOD_CPU_OPERATIONS": "mpi", "HOROVOD_CONTROLLER": "mpi"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said(done, "hello") == [[0, 1, 0, 1, 1]]


def test_horovodrun_through_mpirun(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", "--mpi", "--mpi-args=-mca btl_vader_single_copy_mechanism none", sys.executable, "-c",
                      HELLO)  # fmt: skip
    assert said(done, "hello") == [[rank, 2, rank, 2, 3] for rank in range(2)]


def test_a_function_through_mpirun() -> None:
    def work(offset: int) -> int:
        from horovod.common import life_cycle

        life_cycle.init()
        return life_cycle.rank() + offset

    assert horovod.run(work, args=(10,), num_proc=2, use_mpi=True) == [10, 11]


@pytest.mark.skipif(shutil.which("mpirun.mpich") is None, reason="MPICH's mpirun is not installed")
def test_horovodrun_through_mpichs_mpirun(
    horovodrun: Launch, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path_factory.mktemp("bin")
    own = programs / "mpirun"  # no link: it looks for its helpers where it lies
    own.write_text('#!/bin/sh\nexec mpirun.mpich "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert said(horovodrun("-np", "2", "--mpi", sys.executable, "-c", HELLO), "hello") == [
        [rank, 2, rank, 2, 3] for rank in range(2)
    ]
    assert horovod.run(lambda offset: offset + 1, args=(10,), num_proc=2, use_mpi=True) == [11, 11]
