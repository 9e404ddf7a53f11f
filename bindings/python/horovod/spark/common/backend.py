"""Backends, which run an estimator's ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import SparkContext

import horovod.spark


def default_num_proc() -> int:
    """Return ``spark.default.parallelism``; Exception where no session of Spark is active."""
    context = SparkContext._active_spark_context
    if context is None:
        raise Exception("Could not find an active SparkContext, are you running in a PySpark session?")
    number: int = context.defaultParallelism
    return number


class Backend:
    """Runs a function in every rank of a job."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Return what the function returned, by rank; `env` are variables of the ranks."""
        raise NotImplementedError

    def num_processes(self) -> int:
        """Return the number of ranks."""
        raise NotImplementedError


class SparkBackend(Backend):
    """Runs ranks in tasks of Spark, by ``horovod.spark.run``.

    Parameters
    ----------
    num_proc : int, optional
        Number of ranks; by default ``spark.default.parallelism``.
    env : mapping, optional
        Variables of the ranks. ``CUDA_VISIBLE_DEVICES`` is left out: that is the executor's to say.
    **kwargs
        Of ``horovod.spark.run``.

    Raises
    ------
    Exception
        Without `num_proc`, where no session of Spark is active.
    """

    def __init__(self, num_proc: int | None = None, env: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        self._num_proc = default_num_proc() if num_proc is None else num_proc
        self._env, self._kwargs = dict(env or {}), kwargs

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Return what the function returned, by rank; `env` are variables of the ranks."""
        variables = {**self._env, **(env or {})}
        variables.pop("CUDA_VISIBLE_DEVICES", None)
        return horovod.spark.run(fn, args, kwargs, num_proc=self._num_proc, env=variables, **self._kwargs)

    def num_processes(self) -> int:
        """Return the number of ranks."""
        return self._num_proc
