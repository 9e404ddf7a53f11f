"""``run_elastic``: a function in the ranks of a job on Spark, while tasks come and go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from horovod.common.util import whole_number
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.function import pickled_call, unpickled_results
from horovod.runner.signals import delivered
from horovod.spark import application
from horovod.spark.elastic_job import ElasticTaskJob, TaskDiscovery, TaskPlaces

Result = TypeVar("Result")

_ELASTIC_SECONDS = 600.0


def run_elastic(
    fn: Callable[..., Result],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    start_timeout: float | None = None,
    elastic_timeout: float | None = None,
    reset_limit: int | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    verbose: int = 1,
    nics: str | Iterable[str] | None = None,
    prefix_output_with_timestamp: bool = False,
    min_np: int | None = None,
    max_np: int | None = None,
    executable: str | None = None,
) -> list[Result]:
    """Call a function in ranks that may come and go with Spark's tasks.

    There are `max_num_proc` tasks, of which Spark runs as many as it has slots for. A task that comes later joins. One
    that is lost with its executor, or whose rank fails, Spark starts again, so often as ``spark.task.maxFailures``
    says; after that it ends the job. ``horovod.spark.conf`` has this and more options of the kind.

    Parameters
    ----------
    fn : callable
        Called as ``fn(*args, **kwargs)``; goes through changes of the ranks by ``hvd.elastic.run``.
    args, kwargs
        Its arguments.
    num_proc : int, optional
        Ranks to start with; by default ``spark.default.parallelism``.
    min_num_proc, max_num_proc : int, optional
        Ranks to go on with, at least and at most; by default `num_proc`.
    start_timeout : float, optional
        Seconds for the first `num_proc` tasks to start; by default ``HOROVOD_SPARK_START_TIMEOUT``, or 600.
    elastic_timeout : float, optional
        Seconds to wait for enough tasks after that; by default ``HOROVOD_ELASTIC_TIMEOUT``, or 600.
    reset_limit : int, optional
        How often ranks may form anew.
    env, stdout, stderr, verbose, nics, prefix_output_with_timestamp, executable
        As for :func:`horovod.spark.run`.
    min_np, max_np : int, optional
        Old names.

    Returns
    -------
    list
        What the function returned, by rank of those that were there at the end.

    Raises
    ------
    Exception
        When there is no active SparkContext.
    ValueError
        When arguments can't be met.
    horovod.runner.common.util.timeout.TimeoutException
        When there were too few tasks at the start, or for too long.
    horovod.spark.stage.StageFailedError
        When Spark ended the tasks.
    horovod.runner.job.JobFailedError
        When ranks failed and the job could not go on; the exception of one's function is the ``__cause__``, where that
        could be pickled.
    RuntimeError
        When the limit of resets was reached, or a rank ended with status 0 before the function returned.
    TypeError
        When the function or its arguments can't be pickled.
    """
    for old, new, value in (("min_np", "min_num_proc", min_np), ("max_np", "max_num_proc", max_np)):
        if value is not None:
            warnings.warn(f"{old} is deprecated, please use {new} instead", DeprecationWarning, stacklevel=2)
    context = application.find_context()
    call = pickled_call("horovod.spark.run_elastic", fn, args, kwargs)
    num_proc = application.count_ranks(context, num_proc, verbose)
    least = min_num_proc if min_np is None else min_np
    most = max_num_proc if max_np is None else max_np
    count = num_proc if most is None else whole_number("max_num_proc", most)
    settings = ElasticSettings(
        num_proc=num_proc,
        hosts="",
        verbose=verbose,
        nics=application.interfaces(nics),
        prefix_output_with_timestamp=prefix_output_with_timestamp,
        start_timeout=application.start_seconds(start_timeout),
        min_num_proc=num_proc if least is None else whole_number("min_num_proc", least),
        max_num_proc=count,
        elastic_timeout=float(elastic_timeout or os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or _ELASTIC_SECONDS),
        reset_limit=reset_limit,
    )
    _check(settings)
    driver = application.find_driver(context, settings.nics)
    environment, streams = application.environment_of_ranks(env), {"stdout": stdout, "stderr": stderr}
    seconds = settings.start_timeout
    with delivered(), application.hold_tasks(context, driver, count, call, executable, seconds, True) as held:
        held.gathering.wait_for(num_proc, application.start_timeout(context, seconds), held.stage.check)
        settings.discovery = TaskDiscovery(held.gathering)
        places = TaskPlaces(settings, driver, held)
        try:
            job = ElasticTaskJob(settings, held, places, environment, streams)
            job.run()
        finally:
            places.close()
    return unpickled_results(job.results, sorted(job.results) or [0])


def _check(settings: ElasticSettings) -> None:
    least, most = settings.min_num_proc or 0, settings.max_num_proc or 0
    if not 1 <= least <= settings.num_proc <= most:
        raise ValueError(
            f"min_num_proc={least}, num_proc={settings.num_proc}, max_num_proc={most}: each must be at least 1, and "
            "none more than the next."
        )
    if settings.reset_limit is not None and settings.reset_limit < 0:
        raise ValueError(f"reset_limit={settings.reset_limit}: it must be at least 0.")
