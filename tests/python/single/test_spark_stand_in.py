"""``horovod.spark`` where there is no Spark: tasks are threads. What Spark itself does, tests/python/spark has."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


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
        threads = [threading.Thread(target=work, args=(i, ())) for i in range(count)]

        def collect() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return SimpleNamespace(collect=collect)


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
