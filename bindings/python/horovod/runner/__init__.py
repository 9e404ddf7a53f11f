"""Launching jobs: the ``horovodrun`` command and :func:`run`."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class _HorovodArgs(argparse.Namespace):
    """The arguments of a job that no command line was parsed for: all unset, but for one process.

    Other code gives them to ``launch._run``, with a command or with a function (`run_func`).
    """

    def __init__(self) -> None:
        from horovod.runner.options import make_parser

        unset = {action.dest: None for action in make_parser()._actions if action.dest not in ("help", "version")}
        super().__init__(**unset)
        self.num_proc = 1
        self.command: list[str] = []
        self.run_func: Callable[[], Any] | None = None
        self.executable: str | None = None


def run(
    func: Callable[..., Result],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Result]:
    """Call a function in every process of a new job.

    Parameters
    ----------
    func : callable
        Called as ``func(*args, **kwargs)``; pickled with cloudpickle, so it may be defined in ``__main__``.
    args, kwargs
        Its arguments.
    num_proc : int
        Number of processes.
    min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, host_discovery_script
        Of an elastic job, as the flags of ``horovodrun``. Only the results of `min_num_proc` ranks are returned.
    hosts, hostfile : str, optional
        Where: ``host:slots,host:slots``, or a file with lines ``<host> slots=<n>``; by default this host.
    start_timeout, ssh_port, ssh_identity_file, disable_cache, output_filename, verbose, use_gloo, use_mpi, mpi_args, \
network_interfaces
        As the flags of ``horovodrun``.
    executable : str, optional
        Python to run; by default this one.
    np, min_np, max_np, network_interface
        Former names of `num_proc`, `min_num_proc`, `max_num_proc` and `network_interfaces`.

    Returns
    -------
    list
        What the function returned, by rank.

    Raises
    ------
    ValueError
        When arguments contradict each other, or a number of processes is none.
    TypeError
        When the function or its arguments can't be pickled.
    RuntimeError
        When a process failed, or ended before the function returned. Also when a signal has ended the job and this
        program handled it: SIGINT is a KeyboardInterrupt, and signals that end a program end this one, after the job.
    """
    from horovod.runner.function import pickled_call  # not needed by who imports the options alone

    for old, new, value in (
        ("np", "num_proc", np),
        ("min_np", "min_num_proc", min_np),
        ("max_np", "max_num_proc", max_np),
        ("network_interface", "network_interfaces", network_interface),
    ):
        if value is not None:
            warnings.warn(f"{old} is deprecated, please use {new} instead", DeprecationWarning, stacklevel=2)
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    job = _HorovodArgs()
    job.num_proc = num_proc if np is None else np
    job.min_num_proc = min_num_proc if min_np is None else min_np
    job.max_num_proc = max_num_proc if max_np is None else max_np
    job.slots_per_host, job.reset_limit, job.blacklist_cooldown_range = slots, reset_limit, cooldown_range
    job.hosts, job.hostfile, job.host_discovery_script = hosts, hostfile, host_discovery_script
    job.start_timeout, job.ssh_port, job.ssh_identity_file = start_timeout, ssh_port, ssh_identity_file
    job.disable_cache, job.output_filename, job.verbose = disable_cache, output_filename, verbose
    job.use_gloo, job.use_mpi, job.mpi_args = use_gloo, use_mpi, mpi_args
    job.nics = network_interfaces if network_interface is None else network_interface
    job.executable = executable
    if job.num_proc is None:
        raise ValueError("num_proc=None must be a whole number")
    return _results(job, pickled_call("horovod.run", func, args, kwargs))


def _results(job: argparse.Namespace, call: bytes) -> list[Any]:
    """Return what a pickled call returned in each process of a job, by rank."""
    from horovod.runner.function import unpickled_results
    from horovod.runner.launch import _launch, check_counts
    from horovod.runner.signals import delivered

    job.command = [job.executable or sys.executable, "-m", "horovod.runner.run_task"]
    check_counts(job)
    with delivered():
        results = _launch(job, call)
    there = (sorted(results) or [0])[: job.min_num_proc]  # of an elastic job, in which ranks may have gone
    return unpickled_results(results, there if job.min_num_proc else range(job.num_proc))
