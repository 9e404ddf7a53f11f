"""``run``: a function in every rank of a job on Spark."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import cloudpickle
from pyspark import SparkContext

from horovod import _roda
from horovod.runner.common.util import secret
from horovod.runner.common.util.env import exportable
from horovod.runner.common.util.host_hash import host_hash
from horovod.runner.common.util.hosts import HostInfo, SlotInfo, get_host_assignments
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import Timeout
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars, create_torch_env_vars
from horovod.runner.util import network
from horovod.spark.gathering import Gathering, Task
from horovod.spark.job import TaskJob
from horovod.spark.stage import Stage
from horovod.spark.task import Call

Result = TypeVar("Result")

_ANY = "0.0.0.0"  # noqa: S104 (the driver's name may be that of a gateway)
_START_SECONDS = 600.0
_DONE_SECONDS, _FAILED_SECONDS = 30.0, 2.0  # for tasks to end when their ranks have


@dataclass(frozen=True)
class _Driver:
    """Where executors find the driver, and where it listens for them."""

    address: str
    listens_at: str


def run(
    fn: Callable[..., Result],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    verbose: int = 1,
    nics: str | Iterable[str] | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Result]:
    """Call a function in every rank of a new job. Each rank is a process that a Spark task starts.

    Parameters
    ----------
    fn : callable
        Called as ``fn(*args, **kwargs)``; pickled with cloudpickle, so it may be defined in ``__main__``.
    args, kwargs
        Its arguments.
    num_proc : int, optional
        Number of ranks; by default ``spark.default.parallelism``. Spark must have slots for all at the same time.
    start_timeout : float, optional
        Seconds for all tasks to start; by default ``HOROVOD_SPARK_START_TIMEOUT``, or 600.
    use_mpi, use_gloo, extra_mpi_args
        Ranks find each other without MPI: other wishes are refused.
    env : mapping, optional
        Variables of the ranks, besides those of the executor and this process's that begin with ``HOROVOD_``.
    stdout, stderr : file, optional
        Where what ranks print goes; by default to this process's own. Every line begins with the rank.
    verbose : int
        0: print nothing of our own. 2: print where each rank is.
    nics : str or iterable of str, optional
        Network interfaces to use.
    prefix_output_with_timestamp : bool
        Put the time before every line.
    executable : str, optional
        Python of the ranks; by default that of the Spark task.

    Returns
    -------
    list
        What the function returned, by rank. Ranks of a host are neighbours, and rank 0 is on the host of task 0.

    Raises
    ------
    Exception
        When there is no active SparkContext.
    ValueError
        When arguments can't be met.
    horovod.runner.common.util.timeout.TimeoutException
        When too few tasks started in time.
    horovod.spark.stage.StageFailedError
        When Spark ended the tasks before the job began.
    horovod.runner.job.JobFailedError
        When a rank failed; the text names it and has what it wrote last. The others are ended first.
    """
    context = SparkContext._active_spark_context
    if context is None:
        raise Exception("Could not find an active SparkContext, are you running in a PySpark session?")
    _refuse_mpi(use_mpi, use_gloo, extra_mpi_args)
    if num_proc is None:
        num_proc = context.defaultParallelism
        if verbose >= 1:
            _say(f"{num_proc} ranks, by spark.default.parallelism")
    if num_proc < 1:
        raise ValueError(f"num_proc={num_proc}: at least one rank is needed.")
    seconds = float(start_timeout or os.environ.get("HOROVOD_SPARK_START_TIMEOUT") or _START_SECONDS)
    interfaces = [nics] if isinstance(nics, str) else list(nics or ())
    settings = Settings(
        num_proc=num_proc,
        hosts="",
        verbose=verbose,
        nics=interfaces,
        prefix_output_with_timestamp=prefix_output_with_timestamp,
        start_timeout=seconds,
    )
    driver = _find_driver(context, interfaces)
    keys = secret.make_secret_key(), secret.make_secret_key()
    streams = {"stdout": stdout, "stderr": stderr}
    function = cloudpickle.dumps((fn, tuple(args), dict(kwargs or {})))
    gathering = Gathering(driver.listens_at, keys[0])
    with contextlib.closing(gathering):
        call = Call((driver.address, gathering.port), *keys, function, executable, min(seconds, 60.0))
        stage = Stage(context, num_proc, call)
        grace = 0.0
        try:
            tasks, slots = _arrange(gathering.wait_for(num_proc, _timeout(context, seconds), stage.check))
            grace = _FAILED_SECONDS
            results = _run_ranks(settings, driver, tasks, slots, keys[1], env or {}, streams)
            grace = _DONE_SECONDS
        finally:
            if grace:
                gathering.close()  # attempts that Spark made beside those that are in the job may go, too
            stage.end(grace)
    return [cloudpickle.loads(results[rank]) for rank in range(num_proc)]


def _say(text: str) -> None:
    print(f"horovod.spark: {text}", file=sys.stderr, flush=True)


def _refuse_mpi(use_mpi: bool | None, use_gloo: bool | None, extra_mpi_args: str | None) -> None:
    if use_mpi or extra_mpi_args or use_gloo is False:
        asked = "use_gloo=False" if use_gloo is False else "use_mpi=True" if use_mpi else "extra_mpi_args"
        raise ValueError(
            f"{asked}: on Spark, ranks are started by their tasks and find each other without MPI, as with use_gloo. "
            "Leave use_mpi and extra_mpi_args away."
        )


def _timeout(context: SparkContext, seconds: float) -> Timeout:
    slots = context.defaultParallelism
    text = (
        "Only {activity} Spark tasks have started within {timeout:g} s. Every rank is a task, and all run at the same "
        f"time: ask for fewer (num_proc), give Spark more cores (the default parallelism is {slots}), "
        "end what else runs on it, or wait longer (start_timeout)."
    )
    return Timeout(seconds, text)


def _find_driver(context: SparkContext, nics: Sequence[str]) -> _Driver:
    if nics:
        address = network.interface_address(nics[0])
        return _Driver(address, address)
    if (context.master or "").startswith("local"):
        return _Driver("127.0.0.1", "127.0.0.1")
    name = context.getConf().get("spark.driver.host") or network.outward_address()
    address = network.resolve_host_address(name)
    return _Driver(name, address if address in network.get_local_host_addresses() else _ANY)  # type: ignore[arg-type]


def _arrange(tasks: Sequence[Task]) -> tuple[list[Task], list[SlotInfo]]:
    """Return the tasks by rank, and each rank's numbers."""
    hosts = sorted({task.place.host for task in tasks})
    first = hosts.index(tasks[0].place.host)
    hosts = hosts[first:] + hosts[:first]
    by_host = {host: [task for task in tasks if task.place.host == host] for host in hosts}
    slots = get_host_assignments([HostInfo(host, len(there)) for host, there in by_host.items()], len(tasks))
    return [task for there in by_host.values() for task in there], slots


def _run_ranks(
    settings: Settings,
    driver: _Driver,
    tasks: Sequence[Task],
    slots: Sequence[SlotInfo],
    key: bytes,
    env: Mapping[str, str],
    streams: Mapping[str, Any],
) -> dict[int, bytes]:
    """Run the job, with its rendezvous; return the pickled results by rank."""
    nics = settings.nics
    is_here = not nics and {slot.hostname for slot in slots} == {host_hash()}
    if is_here:
        driver, nics = _Driver("127.0.0.1", "127.0.0.1"), network.loopback_interfaces()
    server = _roda.RendezvousServer(driver.listens_at, 0, key)
    try:
        options = {name: value for name, value in os.environ.items() if name.startswith("HOROVOD_")}
        first = tasks[0].place
        address = network.resolve_host_address(driver.address) or driver.address
        environment = {**exportable({**options, **env}), **create_run_env_vars(address, nics, server.port)}
        variables = [
            {**create_torch_env_vars(slot, first.address, first.port), **create_slot_env_vars(slot)} for slot in slots
        ]
        if settings.verbose >= 2:
            for rank, task in enumerate(tasks):
                _say(f"rank {rank} is in task {task.place.index} at {task.place.address}")
        job = TaskJob(settings, tasks, variables, environment, streams)
        job.run()
        return job.results
    finally:
        server.stop()
