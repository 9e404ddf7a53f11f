"""The Spark job whose tasks hold the ranks."""

from __future__ import annotations

import functools
import re
import uuid
from typing import Any

from pyspark import InheritableThread, SparkContext

from horovod.conflict import DISTRIBUTION
from horovod.spark.task import Call, take_part
from horovod.version import roda_version

_END_SECONDS = 30.0  # after a cancellation
_WITHOUT_MODULE = re.compile(r"No module named '([\w.]+)'")


class StageFailedError(RuntimeError):
    """Spark ended the tasks; the text says why."""


class Stage:
    """Runs tasks in a Spark job, in a job group of its own, from a thread.

    Parameters
    ----------
    context : SparkContext
        The application's.
    count : int
        Number of tasks.
    call : Call
        What they get.
    """

    def __init__(self, context: SparkContext, count: int, call: Call) -> None:
        self._context, self._count, self._call = context, count, call
        self._group = f"horovod.spark.run-{uuid.uuid4().hex[:8]}"
        self._error: Exception | None = None
        self._thread: Any = InheritableThread(target=self._work, name="horovod-spark-job", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._context.setJobGroup(self._group, f"Horovod job of {self._count} ranks", interruptOnCancel=True)
            rows = self._context.parallelize(range(self._count), self._count)
            rows.mapPartitionsWithIndex(functools.partial(take_part, self._call)).collect()
        except Exception as error:  # whatever Spark and its bridge to Java raise
            self._error = error

    def failure(self, seconds: float = 0.0) -> StageFailedError | None:
        """Return why the Spark job has ended; None when it has not within these seconds."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return None
        text = str(self._error)
        missing = _WITHOUT_MODULE.search(text)
        if missing is not None:
            text = (
                f"The Python of Spark's executors has no module {missing[1]}. Install {DISTRIBUTION} {roda_version} on "
                "every worker, for the Python that PYSPARK_PYTHON (spark.pyspark.python) names, with what the function "
                f"imports; or send an environment along (spark.archives). What Spark says: {text}"
            )
        else:
            text = f"Spark ended the job whose tasks hold the ranks: {text}"
        failure = StageFailedError(text)
        failure.__cause__ = self._error
        return failure

    def check(self) -> None:
        """Raise StageFailedError when the Spark job has ended."""
        failure = self.failure()
        if failure is not None:
            raise failure

    def end(self, seconds: float) -> None:
        """Give the tasks so long to end by themselves, then cancel them, by their job group."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_END_SECONDS)
