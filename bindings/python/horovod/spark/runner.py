"""``run``: a function in every rank of a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from horovod import _roda
from horovod.runner.common.util.host_hash import host_hash
from horovod.runner.common.util.hosts import HostInfo, SlotInfo, get_host_assignments
from horovod.runner.common.util.settings import Settings
from horovod.runner.function import pickled_call, unpickled_results
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars, create_torch_env_vars
from horovod.runner.signals import delivered
from horovod.runner.util import network
from horovod.spark import application
from horovod.spark.application import Driver
from horovod.spark.elastic import run_elastic as run_elastic
from horovod.spark.gathering import Task
from horovod.spark.job import TaskJob

Result = TypeVar("Result")


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
        Where what ranks print goes, and what is told of their ends; by default to this process's own. Every line of
        theirs begins with the rank.
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
        When a rank failed; the exception of its function is the ``__cause__``, where that could be pickled. The others
        are ended first.
    RuntimeError
        When a rank ended with status 0 before the function returned, or what it returned can't be unpickled here.
    TypeError
        When the function or its arguments can't be pickled.
    """
    context = application.find_context()
    call = pickled_call("horovod.spark.run", fn, args, kwargs)
    _refuse_mpi(use_mpi, use_gloo, extra_mpi_args)
    num_proc = application.count_ranks(context, num_proc, verbose)
    settings = Settings(
        num_proc=num_proc,
        hosts="",
        verbose=verbose,
        nics=application.interfaces(nics),
        prefix_output_with_timestamp=prefix_output_with_timestamp,
        start_timeout=application.start_seconds(start_timeout),
    )
    driver = application.find_driver(context, settings.nics)
    streams = {"stdout": stdout, "stderr": stderr}
    seconds = settings.start_timeout
    with delivered(), application.hold_tasks(context, driver, num_proc, call, executable, seconds) as held:
        in_time = application.start_timeout(context, seconds)
        tasks, slots = _arrange(held.gathering.wait_for(num_proc, in_time, held.stage.check))
        results = _run_ranks(settings, driver, tasks, slots, held.secret, env, streams)
    return unpickled_results(results, range(num_proc))


def _refuse_mpi(use_mpi: bool | None, use_gloo: bool | None, extra_mpi_args: str | None) -> None:
    if use_mpi or extra_mpi_args or use_gloo is False:
        asked = "use_gloo=False" if use_gloo is False else "use_mpi=True" if use_mpi else "extra_mpi_args"
        raise ValueError(
            f"{asked}: on Spark, ranks are started by their tasks and find each other without MPI, as with use_gloo. "
            "Leave use_mpi and extra_mpi_args away."
        )


def _arrange(tasks: Sequence[Task]) -> tuple[list[Task], list[SlotInfo]]:
    """Return the tasks by rank, on a host in the order of their GPUs, and each rank's numbers."""
    hosts = sorted({task.place.host for task in tasks})
    first = hosts.index(tasks[0].place.host)
    hosts = hosts[first:] + hosts[:first]
    in_order = sorted(tasks, key=lambda task: [(len(gpu), gpu) for gpu in task.place.gpus])
    by_host = {host: [task for task in in_order if task.place.host == host] for host in hosts}
    slots = get_host_assignments([HostInfo(host, len(there)) for host, there in by_host.items()], len(tasks))
    return [task for there in by_host.values() for task in there], slots


def _visible_gpus(tasks: Sequence[Task], environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the variables, by host, with which its ranks see their GPUs, each one's own at its local rank.

    None on hosts where Spark assigned not each rank one, and where the user wants all.
    """
    by_host: dict[str, list[tuple[str, ...]]] = {}
    for task in tasks:
        by_host.setdefault(task.place.host, []).append(task.place.gpus)
    variables: dict[str, dict[str, str]] = dict.fromkeys(by_host, {})
    if environment.get("HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX") not in (None, "", "0"):
        return variables
    for host, gpus in by_host.items():
        # Every rank's first one before second ones; one that several ranks share once.
        names = dict.fromkeys(gpu for turn in zip_longest(*gpus) for gpu in turn if gpu is not None)
        if all(gpus):  # Spark counts them as nvidia-smi does
            variables[host] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}
    return variables


def _run_ranks(
    settings: Settings,
    driver: Driver,
    tasks: Sequence[Task],
    slots: Sequence[SlotInfo],
    key: bytes,
    env: Mapping[str, str] | None,
    streams: Mapping[str, Any],
) -> dict[int, bytes]:
    """Run the job, with its rendezvous; return the pickled results by rank."""
    nics = settings.nics
    is_here = not nics and {slot.hostname for slot in slots} == {host_hash()}
    if is_here:
        here = network.loopback_address()
        driver, nics = Driver(here, here), sorted(network.get_local_intfs())
    server = _roda.RendezvousServer(driver.listens_at, 0, key)
    try:
        first = tasks[0].place
        common = create_run_env_vars(driver.numeric_address, nics, server.port)
        environment = {**application.environment_of_ranks(env), **common}
        gpus = _visible_gpus(tasks, environment)
        master = first.address, first.port
        variables = [
            {**create_torch_env_vars(slot, *master), **create_slot_env_vars(slot), **gpus[slot.hostname]}
            for slot in slots
        ]
        if settings.verbose >= 2:
            for rank, task in enumerate(tasks):
                application.say(f"rank {rank} is in task {task.place.index} at {task.place.address}")
        job = TaskJob(settings, tasks, variables, environment, streams)
        job.run()
        return job.results
    finally:
        server.stop()
