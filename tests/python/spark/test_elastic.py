"""``horovod.spark.run_elastic`` on a cluster of two workers. No framework: the engine's objects are enough."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import horovod.spark
import pytest
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.job import JobFailedError
from horovod.spark.stage import StageFailedError
from pyspark import SparkContext

# Executors don't find this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NUMBERS = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")


def kill_executor() -> None:
    """Kill the process that Spark's worker started for this application."""
    process = os.getpid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)
    signal.pause()


def train(sizes: list[int]) -> dict[str, Any]:
    """Count steps until there have been as many ranks as `sizes` says, in turn; container two sees to the losses."""
    from horovod.common.basics import HorovodBasics
    from horovod.common.elastic import ObjectState, run_fn
    from horovod.common.objects import allgather_object, broadcast_object

    basics = HorovodBasics()
    basics.init()

    def reset() -> None:
        basics.shutdown()
        basics.init()

    def loop(state: Any) -> None:
        while state.sizes != sizes and state.step < 3000:
            assert sum(allgather_object(state.step)) == state.step * basics.size()
            state.step += 1
            if state.sizes[-1:] != [basics.size()]:
                state.sizes = [*state.sizes, basics.size()]
                print(f"{basics.size()} ranks", flush=True)
            state.commit()
            if os.environ["CONTAINER_ID"] == "two":
                if state.sizes == [2]:
                    kill_executor()
                if state.sizes == [2, 1, 2]:
                    raise KeyError("what is missing")
            time.sleep(0.02)

    state = ObjectState(broadcast_object, basics.rank, step=0, sizes=[])
    run_fn(loop, reset)(state)
    return {
        "numbers": tuple(int(os.environ[f"HOROVOD_{name}"]) for name in NUMBERS),
        "host": os.environ["HOROVOD_HOSTNAME"],
        "sizes": state.sizes,
        "step": state.step,
        "given": os.environ.get("GIVEN"),
    }


def test_an_executor_is_killed_and_a_rank_fails_in_training(
    context: SparkContext, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = io.StringIO(), io.StringIO()
    sizes = [2, 1, 2, 1, 2]
    results = horovod.spark.run_elastic(
        train, (sizes,), num_proc=2, min_num_proc=1, env={"GIVEN": "yes"}, stdout=out, stderr=err, verbose=2
    )
    assert [result["numbers"] for result in results] == [(0, 2, 0, 1, 0, 2), (1, 2, 0, 1, 1, 2)]
    assert [result["sizes"] for result in results] == [sizes, sizes]
    assert [result["given"] for result in results] == ["yes", "yes"]
    assert len({result["host"] for result in results}) == 2
    assert results[0]["step"] == results[1]["step"]
    printed = out.getvalue().splitlines()
    assert printed.count("[0]<stdout>:2 ranks") == 3
    assert printed.count("[0]<stdout>:1 ranks") == 2
    assert "[1]<stderr>:KeyError: 'what is missing'" in err.getvalue().splitlines()
    said = capsys.readouterr().err + err.getvalue()
    tasks = re.findall(r"horovod.spark: rank (\d) is in \S+/(task\d\.\d)\n", said)
    assert [rank for rank, _ in tasks] == ["0", "1", "0", "0", "1", "0", "0", "1"]
    lost = next(task for _, task in tasks if task != tasks[2][1])
    assert re.search(rf"horovod.spark: Worker \S+/{lost}\[0\], rank \d (was|ended)", said)
    assert [task for _, task in tasks[4::3]] == [f"{lost[:-1]}{attempt}" for attempt in (1, 2)]  # Spark's retries of it
    assert re.search(rf"Worker \S+/{lost[:-1]}1\[0\], rank 1 ended with status 1: KeyError: 'what is missing' \(", said)


def fail_in_two() -> None:
    if os.environ["CONTAINER_ID"] == "two":
        raise KeyError("what is missing")
    train([3])


def test_a_rank_that_always_fails(context: SparkContext) -> None:
    with pytest.raises(JobFailedError, match=r"\nCause: KeyError: 'what is missing'\nTraceback") as caught:
        horovod.spark.run_elastic(fail_in_two, num_proc=2, min_num_proc=1)
    assert re.search(r"/task\d\.2\[0\]$", str(caught.value.rank))  # Spark has tried so often
    assert caught.value.exit_code == 1
    assert isinstance(caught.value.__cause__, KeyError)


def test_too_few_slots(context: SparkContext) -> None:
    with pytest.raises(TimeoutException, match=r"Only [0-2] of 3 Spark tasks have started within 3 s.*num_proc"):
        horovod.spark.run_elastic(train, ([2],), num_proc=3, start_timeout=3)


@pytest.mark.usefixtures("package_missing")
def test_executors_without_the_package(context: SparkContext) -> None:
    with pytest.raises(StageFailedError, match=r"no module horovod.*roda-horovod .*PYSPARK_PYTHON"):
        horovod.spark.run_elastic(train, ([2],), num_proc=2)


def test_wishes_that_can_not_be_met(context: SparkContext) -> None:
    with (
        pytest.raises(ValueError, match="min_num_proc=3, num_proc=2"),
        pytest.warns(DeprecationWarning, match="min_np"),
    ):
        horovod.spark.run_elastic(train, num_proc=2, min_np=3)
    with pytest.raises(ValueError, match="max_num_proc=1"):
        horovod.spark.run_elastic(train, num_proc=2, max_num_proc=1)
    with pytest.raises(ValueError, match="reset_limit=-1"):
        horovod.spark.run_elastic(train, num_proc=2, reset_limit=-1)
