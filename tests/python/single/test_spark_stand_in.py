"""``horovod.spark`` where there is no Spark: tasks are threads. What Spark itself does, tests/python/spark has."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from horovod.runner.failure import JobFailedError


class Context:
    """Runs tasks as a SparkContext does, all at once."""

    master = "local[2]"
    defaultParallelism = 2  # noqa: N815 (Spark's name)

    def setJobGroup(self, group: str, text: str, interruptOnCancel: bool) -> None:  # noqa: N802, N803
        pass

    def parallelize(self, rows: Iterable[int], count: int) -> SimpleNamespace:
        return SimpleNamespace(mapPartitionsWithIndex=functools.partial(self._tasks, count))

    @staticmethod
    def _tasks(count: int, work: Callable[..., Any]) -> SimpleNamespace:
        errors: list[Exception] = []

        def run(index: int) -> None:
            try:
                work(index, ())
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]

        def collect() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if errors:
                raise errors[0]

        return SimpleNamespace(collect=collect)


class Fragile:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("horovod.spark")]:
            del sys.modules[name]

    pyspark = ModuleType("pyspark")
    pyspark.SparkContext = SimpleNamespace(_active_spark_context=Context())
    pyspark.TaskContext = SimpleNamespace(get=lambda: SimpleNamespace(attemptNumber=lambda: 0, resources=dict))
    pyspark.InheritableThread = threading.Thread
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    forget()
    import horovod.spark

    yield horovod.spark
    forget()


def test_a_job_in_tasks(spark: ModuleType) -> None:
    def work(factor: int) -> int:
        from horovod.common.basics import HorovodBasics
        from horovod.common.objects import allgather_object

        print("kept for an error", file=sys.stderr)
        basics = HorovodBasics()
        basics.init()
        return factor * sum(allgather_object(basics.rank() + 1))

    assert spark.run(work, (5,), num_proc=2) == [15, 15]


def test_an_elastic_job_in_tasks(spark: ModuleType) -> None:
    def work(factor: int) -> tuple[int, int]:
        from horovod.common.basics import HorovodBasics
        from horovod.common.elastic import ObjectState, run_fn
        from horovod.common.objects import allgather_object, broadcast_object

        basics = HorovodBasics()
        basics.init()

        def loop(state: Any) -> tuple[int, int]:
            state.step += 1
            state.commit()
            return state.step, factor * sum(allgather_object(basics.rank() + 1))

        return run_fn(loop, lambda: None)(ObjectState(broadcast_object, basics.rank, step=0))

    assert spark.run_elastic(work, (5,), num_proc=2) == [(1, 15), (1, 15)]


def ends(how: str) -> int:
    """End the last rank in some way; the other one waits for it."""
    from horovod.common import life_cycle as hvd, objects

    hvd.init()
    objects.allgather_object(0)
    if hvd.rank() == 1:
        if how == "raises":
            raise KeyError("label 17")
        if how == "exits":
            sys.exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return 0 if how == "exits" else len(objects.allgather_object(0))


def test_the_caller_is_told_which_rank_failed_and_of_what(spark: ModuleType) -> None:
    with pytest.raises(JobFailedError, match=r"Process name: 1\nExit code: 1\nHost: .*\nCause: KeyError") as caught:
        spark.run(ends, ("raises",), num_proc=2)
    error = caught.value
    assert (error.rank, error.exit_code, str(error.__cause__)) == (1, 1, "'label 17'")
    assert isinstance(error.__cause__, KeyError)
    assert "1 other rank ended for this cause." in str(error)
    assert "wrote" not in str(error)
    assert str(error).count("Traceback") == 1
    with pytest.raises(JobFailedError, match=r"Ended by: SIGKILL\n(.*\n)*Rank 1 wrote nothing to stderr") as caught:
        spark.run(ends, ("is killed",), num_proc=2)
    assert (caught.value.rank, caught.value.exit_code) == (1, 137)


def test_what_can_not_travel(spark: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=r"Ranks \[1\] ended with status 0 before the function returned"):
        spark.run(ends, ("exits",), num_proc=2)
    for run in (spark.run, spark.run_elastic):
        with pytest.raises(TypeError, match=r"horovod.spark.run\S* can't pickle the function, .*lock"):
            run(print, (threading.Lock(),), num_proc=1)
        with pytest.raises(RuntimeError, match="returned on rank 0 can't be unpickled here: .*no number"):
            run(lambda: Fragile(), num_proc=1)


def test_the_caller_of_an_elastic_job_is_told_too(spark: ModuleType) -> None:
    def work() -> None:
        raise KeyError("label 17")

    with pytest.raises(JobFailedError, match=r"Process name: \S+/task0.0\[0\]\nExit code: 1\n") as caught:
        spark.run_elastic(work, num_proc=1)
    assert isinstance(caught.value.__cause__, KeyError)
