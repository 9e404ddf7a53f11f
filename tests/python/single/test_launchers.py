"""Jobs that a launcher starts which is not ours, and tells each process its rank and where rank 0 is."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from conftest import Launch
from horovod.common.util import mpi_built

# Ranks without a framework are there sooner, and that they have met is what matters here.
HELLO = """
import sys
from horovod.common.basics import HorovodBasics
hvd = HorovodBasics()
hvd.init()
sys.stdout.write(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}\\n")
"""
TORCH = (
    HELLO
    + """
import horovod.torch as hvd, torch
assert hvd.allreduce(torch.ones(8), op=hvd.Sum).tolist() == [float(hvd.size())] * 8
torch.distributed.init_process_group("roda")
torch.distributed.barrier()
"""
)
HERE = "0.0.0.0"  # noqa: S104 (leads here, and does not say that all ranks are: those of loopback meet without a port)
PORTS = itertools.count(20_000 + os.getpid() % 10_000 * 4)


def bare() -> dict[str, str]:
    """No job's variables, whatever runs this test."""
    marks = ("HOROVOD_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
    plain = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(marks) and k not in plain}
    return kept | {"OMP_NUM_THREADS": "1"}


def by_variables(rank: int, size: int, **more: str) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", **more}


def by_srun(rank: int, size: int, **more: str) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": more.pop("step", "0"), "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank), "SLURM_NTASKS": "7", "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "host[3-5]", **more,
    }  # fmt: skip


def by_mpi(rank: int, size: int, **more: str) -> dict[str, str]:
    local = {"OMPI_COMM_WORLD_LOCAL_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)}
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), **local, **more}


@pytest.fixture
def start() -> Iterator[object]:
    started: list[subprocess.Popen[str]] = []

    def run(variables: dict[str, str], code: str = HELLO) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=bare() | variables,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ends(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    done = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        done.append((process.returncode, out + err))
    return done


def hello(size: int) -> list[tuple[int, str]]:
    return [(0, f"rank {r} of {size}, local {r} of {size}\n") for r in range(size)]


@pytest.mark.parametrize("by", [by_variables, by_srun])
@pytest.mark.parametrize("size", [2, 3])
def test_variables_are_a_job(start: object, by: object, size: int) -> None:
    port = str(next(PORTS))
    processes = [start(by(rank, size, MASTER_PORT=port)) for rank in reversed(range(size))]
    assert ends(processes)[::-1] == hello(size)


def test_mpis_variables_are_a_job_where_mpi_is_not_to_be_used(start: object) -> None:
    apart = {"HOROVOD_CONTROLLER": "gloo", "PMIX_NAMESPACE": str(os.getpid())}
    processes = [start(by_mpi(rank, 2, **apart)) for rank in range(2)]
    assert ends(processes) == hello(2)


def test_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "--no-python", sys.executable, "-c", TORCH], env=bare(),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [text.strip() for _, text in hello(2)]


@contextlib.contextmanager
def taken_above(number: int) -> Iterator[int]:
    """A port, so many above which are in use: one by somebody who answers with nonsense, the others by nobody."""
    for port in itertools.islice(PORTS, 0, None, 17):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            strangers = [held.enter_context(socket.socket()) for _ in range(16)]
            for above, stranger in enumerate(strangers, port + 1):
                stranger.bind(("", above))
            for stranger in strangers[number:]:
                stranger.close()
            strangers[0].listen()
            answering = threading.Thread(target=answer, args=(strangers[0],), daemon=True)
            answering.start()
            yield port
            strangers[0].shutdown(socket.SHUT_RDWR)
            return


def answer(stranger: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            stranger.accept()[0].sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def test_ports_in_use_are_passed_over(start: object) -> None:
    with taken_above(15) as port:
        processes = [start(by_variables(rank, 2, MASTER_ADDR=HERE, MASTER_PORT=str(port))) for rank in (1, 0)]
        assert ends(processes)[::-1] == hello(2)


def test_no_port_is_free(start: object) -> None:
    with taken_above(16) as port:
        variables = {"MASTER_ADDR": HERE, "MASTER_PORT": str(port), "HOROVOD_GLOO_TIMEOUT_SECONDS": "2"}
        first, second = ends([start(by_variables(rank, 2, **variables)) for rank in range(2)])
    ports = f"ports {port + 1} to {port + 16}"
    assert first[0] != 0
    assert f"rank 0 can't listen on any of the {ports}: " in first[1], first[1]
    assert second[0] != 0
    assert f"can't reach rank 0 at {HERE}, {ports}: " in second[1], second[1]


def test_jobs_side_by_side_do_not_mix(start: object) -> None:
    jobs = [[start(by_variables(r, 2, MASTER_PORT=p)) for r in range(2)] for p in (str(next(PORTS)), str(next(PORTS)))]
    steps = [[start(by_srun(r, 2, step=s)) for r in range(2)] for s in ("3", "4")]
    for job in jobs + steps:
        assert ends(job) == hello(2)


def test_init_again(start: object) -> None:
    port = str(next(PORTS))
    processes = [start(by_variables(rank, 2, MASTER_PORT=port), HELLO + "hvd.shutdown()\n" + HELLO) for rank in (0, 1)]
    assert ends(processes) == [(code, text * 2) for code, text in hello(2)]


def test_a_rank_that_does_not_come_is_named(start: object) -> None:
    short = {"MASTER_PORT": str(next(PORTS)), "HOROVOD_GLOO_TIMEOUT_SECONDS": "2"}
    processes = [start(by_variables(rank, 3, **short)) for rank in (0, 2)]
    for rank, (code, text) in zip((0, 2), ends(processes)):
        assert code != 0
        assert f"rank 1 of 3 has not come. the environment says that this is rank {rank} of 3" in text, text
        assert f"(RANK={rank}, WORLD_SIZE=3)" in text


def test_numbers_without_a_place_are_an_error_not_a_job_of_one(start: object) -> None:
    processes = [start({"RANK": str(rank), "WORLD_SIZE": "2"}) for rank in range(2)]
    for code, text in ends(processes):
        assert code != 0
        assert "nothing says where rank 0 is: set MASTER_ADDR" in text


@pytest.mark.skipif(not mpi_built(), reason="the mpi transport is not usable")
def test_mpi_that_comes_up_alone_is_an_error_with_both_sizes(start: object) -> None:
    processes = [start(by_mpi(rank, 2)) for rank in range(2)]
    for rank, (code, text) in enumerate(ends(processes)):
        assert code != 0
        assert f"mpirun says that this is rank {rank} of 2" in text, text
        assert "but mpi came up with 1 process" in text
        assert "HOROVOD_CONTROLLER=gloo" in text


def test_the_controller_of_a_launcher_that_did_not_start_this(start: object) -> None:
    (end,) = ends([start(by_variables(0, 2, HOROVOD_CONTROLLER="mpi"))])
    assert end[0] != 0
    assert "HOROVOD_CONTROLLER='mpi'" in end[1]


def test_a_process_of_its_own_inside_a_job(start: object) -> None:
    assert ends([start(by_variables(1, 2, HOROVOD_SIZE="1"))]) == hello(1)


def test_horovodrun_inside_anothers_job(horovodrun: Launch) -> None:
    for around in (by_srun(0, 4, step="4294967290"), by_srun(0, 4), by_variables(0, 4), by_mpi(0, 4)):
        done = horovodrun("-np", "2", sys.executable, "-c", HELLO, env=bare() | around)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 2


def test_the_choice_is_told(start: object) -> None:
    port = {"MASTER_PORT": str(next(PORTS)), "HOROVOD_LOG_LEVEL": "info"}
    processes = [start(by_variables(rank, 2, **port, **by_srun(rank, 2))) for rank in range(2)]
    for rank, (code, text) in enumerate(ends(processes)):
        assert code == 0
        assert f"started by the environment (RANK={rank}, WORLD_SIZE=2); passed over: srun" in text
