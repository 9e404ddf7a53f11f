"""``horovod.spark.run`` on a cluster of two workers."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import horovod.spark
import pytest
from horovod.runner.common.util.timeout import Timeout, TimeoutException
from horovod.runner.job import JobFailedError
from horovod.runner.util import network
from horovod.runner.util.wire import Wire, prove
from horovod.spark import application, runner
from horovod.spark.gathering import Gathering
from horovod.spark.stage import StageFailedError
from horovod.spark.task import Place, get_available_devices
from pyspark import BarrierTaskContext, SparkContext

# Executors don't find this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOT = Path(__file__).parents[3]
TORCH = {"RODA_TEST_TORCH": os.environ.get("RODA_TEST_TORCH", "")}


def load() -> tuple[Any, Any]:
    """Return horovod.torch and torch."""
    sys.path.append(os.environ["RODA_TEST_TORCH"])
    import horovod.torch as hvd
    import torch

    hvd.init()
    return hvd, torch


def add_up(summand: int, factor: int = 1) -> dict[str, Any]:
    hvd, torch = load()
    total = hvd.allreduce(torch.tensor([summand + factor * hvd.rank()]), op=hvd.Sum).item()
    print("summed up", flush=True)
    return {
        "total": total,
        "numbers": (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()),
        "host": os.environ["HOROVOD_HOSTNAME"],
        "container": os.environ["CONTAINER_ID"],
        "given": os.environ.get("GIVEN"),
        "pid": os.getpid(),
    }


def pythons(context: SparkContext) -> dict[int, bool]:
    """Return the processes of Spark's Pythons, one for each slot, and whether they know of a rank."""

    def look(_: Any) -> Any:
        BarrierTaskContext.get().barrier()
        return [(os.getpid(), "HOROVOD_RANK" in os.environ)]

    return dict(context.parallelize(range(2), 2).barrier().mapPartitions(look).collect())


def test_ranks_results_output_and_the_next_job(context: SparkContext) -> None:
    before = pythons(context)
    out = io.StringIO()
    results = horovod.spark.run(
        add_up, (5,), {"factor": 10}, env={**TORCH, "GIVEN": "yes"}, stdout=out, num_proc=2, verbose=0
    )
    assert [result["total"] for result in results] == [20, 20]
    assert [result["numbers"] for result in results] == [(0, 2, 0, 1, 0, 2), (1, 2, 0, 1, 1, 2)]
    assert len({result["host"] for result in results}) == 2
    assert {result["container"] for result in results} == {"one", "two"}
    assert [result["given"] for result in results] == ["yes", "yes"]
    assert sorted(out.getvalue().splitlines()) == ["[0]<stdout>:summed up", "[1]<stdout>:summed up"]

    again = horovod.spark.run(add_up, (1,), env=TORCH, verbose=0)  # as many as Spark has cores
    assert [result["total"] for result in again] == [3, 3]
    assert [result["given"] for result in again] == [None, None]
    assert not {result["pid"] for result in again} & {result["pid"] for result in results}
    assert pythons(context) == before == dict.fromkeys(before, False)  # they live on, and know nothing


def wait_until_no_job_is_left(context: SparkContext) -> None:
    deadline = time.monotonic() + 60
    while context.statusTracker().getActiveJobsIds():  # it hears of ends a little later
        assert time.monotonic() < deadline
        time.sleep(0.1)


def break_one() -> None:
    hvd, torch = load()
    if hvd.rank() == 1:
        raise KeyError("what is missing")
    hvd.allreduce(torch.ones(1))


def kill_one() -> None:
    hvd, torch = load()
    if hvd.rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.allreduce(torch.ones(1))


def kill_the_task_of_one() -> None:
    hvd, torch = load()
    if hvd.rank() == 1:
        agent = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(agent.rpartition(")")[2].split()[1]), signal.SIGKILL)
    hvd.allreduce(torch.ones(1))
    signal.pause()


@pytest.mark.parametrize(
    ("function", "rank", "words"),
    [
        (break_one, 1, "KeyError: 'what is missing'"),
        (kill_one, 0, "Ended by: SIGKILL"),
        (kill_the_task_of_one, 1, "The connection to rank 1's Spark task was lost"),
    ],
)
def test_a_rank_that_fails_ends_the_job(context: SparkContext, function: Any, rank: int, words: str) -> None:
    with pytest.raises(JobFailedError) as caught:
        horovod.spark.run(function, num_proc=2, env=TORCH, verbose=0)
    assert caught.value.rank == rank
    assert words in str(caught.value)
    assert f"Process name: {rank}\n" in str(caught.value)
    wait_until_no_job_is_left(context)


def look_for_gpus() -> tuple[str, int, list[str], str | None]:
    local_rank, seen = int(os.environ["HOROVOD_LOCAL_RANK"]), os.environ.get("CUDA_VISIBLE_DEVICES")
    return os.environ["ROLE"], local_rank, get_available_devices(), seen


# The workers have GPU 7 and GPU 3.
def test_ranks_see_the_gpus_that_spark_assigned(context: SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**env: str) -> list[Any]:
        return horovod.spark.run(look_for_gpus, env=env, verbose=0)

    assert sorted(found()) == [("one", 0, ["0"], "7"), ("two", 0, ["0"], "3")]
    monkeypatch.setattr(context, "pythonExec", sys.executable)  # without containers they share a host
    assert found() == [("two", 0, ["0"], "3,7"), ("one", 1, ["1"], "3,7")]
    assert found(HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX="1") == [("two", 0, ["3"], None), ("one", 1, ["7"], None)]


@pytest.mark.parametrize(
    ("assigned", "seen"),
    [
        ([("10",), ("9",)], "9,10"),
        ([("2", "3"), ("0", "1")], "0,2,1,3"),
        ([("0",), ("1",), ("0",), ("1",)], "0,1"),
        ([("0",), ()], None),
    ],
)
def test_every_rank_has_its_gpu_at_its_local_rank(assigned: list[tuple[str, ...]], seen: str | None) -> None:
    places = [Place(index, 0, "host", "127.0.0.1", 1, gpus) for index, gpus in enumerate(assigned)]
    tasks, _ = runner._arrange([SimpleNamespace(place=place) for place in places])
    assert runner._visible_gpus(tasks, {})["host"].get("CUDA_VISIBLE_DEVICES") == seen


def test_too_few_slots(context: SparkContext) -> None:
    with pytest.raises(TimeoutException, match=r"Only [0-2] of 3 Spark tasks have started within 3 s.*num_proc"):
        horovod.spark.run(add_up, (1,), num_proc=3, start_timeout=3)
    wait_until_no_job_is_left(context)


@pytest.mark.usefixtures("package_missing")
def test_executors_without_the_package(context: SparkContext) -> None:
    with pytest.raises(StageFailedError, match=r"Install roda-horovod .* on every worker.*PYSPARK_PYTHON"):
        horovod.spark.run(add_up, (1,), num_proc=2)


def test_wishes_that_can_not_be_met(context: SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="use_mpi=True"):
        horovod.spark.run(add_up, use_mpi=True)
    with pytest.raises(ValueError, match="num_proc=0"):
        horovod.spark.run(add_up, num_proc=0)
    with pytest.raises(ValueError, match="'nowhere0' does not exist"):
        horovod.spark.run(add_up, num_proc=2, nics="nowhere0")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(Exception, match="Could not find an active SparkContext"):
        horovod.spark.run(add_up)


def come(port: int, key: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    prove(connection, key, 10)
    with connection.makefile("wb") as writer:
        Wire(key).write(Place(0, 0, "host", "127.0.0.1", 1), writer)
    return connection


def test_strangers_are_no_tasks() -> None:
    gathering = Gathering("127.0.0.1", b"key")
    threads = threading.active_count()
    with pytest.raises(EOFError, match="hung up before it proved"):
        come(gathering.port, b"another key")
    silent = [socket.create_connection(("127.0.0.1", gathering.port)) for _ in range(50)]
    with pytest.raises(TimeoutException, match="0 of 1"):
        gathering.wait_for(1, Timeout(0, "{activity}"), lambda: None)
    with come(gathering.port, b"key") as task:
        (arrived,) = gathering.wait_for(1, Timeout(60, "{activity}"), lambda: None)
        assert threading.active_count() == threads
        in_time = threading.Thread(target=arrived.begin)
        in_time.start()
        with task.makefile("rb") as stream:
            assert Wire(b"key").read(stream) == 0
        in_time.join()
    gathering.close()
    for stranger in silent:
        stranger.close()


def test_the_example_learns(context: SparkContext) -> None:
    command = [sys.executable, str(ROOT / "examples/spark_digits.py"), "--master", "local[2]", "--epochs", "4"]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), TORCH["RODA_TEST_TORCH"]]))
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    accuracy, ranks = done.stdout.splitlines()[-1].split()[1::5]
    assert float(accuracy) > 0.9, done.stdout
    assert ranks == "2"


def test_the_driver_of_a_local_master_is_at_the_loopback_address_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "loopback_address", lambda: "::1")
    driver = application.find_driver(SimpleNamespace(master="local[2]"), [])
    assert (driver.numeric_address, driver.listens_at) == ("::1", "::1")
