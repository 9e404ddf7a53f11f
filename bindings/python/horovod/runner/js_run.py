"""Launching through jsrun, the launcher of LSF machines with IBM's Job Step Manager."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.common.util.settings import Settings
from horovod.runner.external import launch_external, run_external
from horovod.runner.mpi_run import _SMPI_FLAGS, _SMPI_FLAGS_TCP
from horovod.runner.util.lsf import LSFUtils


def is_jsrun_installed() -> bool:
    """Tell whether there is a jsrun on the PATH."""
    return shutil.which("jsrun") is not None


def generate_jsrun_rankfile(settings: Settings, path: str | None = None) -> str:
    """Write an explicit resource file: a part of its host's cores for each rank, and all GPUs in sight.

    Parameters
    ----------
    settings : Settings
        Hosts and number of processes.
    path : str, optional
        Where to; by default a new file in the folder for temporary files.

    Returns
    -------
    str
        Its path.

    Raises
    ------
    ValueError
        When there are too few slots, or a host has more of them than GPUs.
    RuntimeError
        When the cores of the hosts can't be found out.
    """
    hosts = parse_hosts(settings.hosts)
    gpus = LSFUtils.get_num_gpus(hosts[0].hostname)
    for host in hosts:
        if gpus and host.slots > gpus:
            raise ValueError(
                f"Host {host.hostname} has {host.slots} slots and {gpus} GPUs: jsrun takes one GPU a process. Ask for "
                "fewer, or name the resource sets with --binding-args."
            )
    ranks = get_host_assignments(hosts, settings.num_proc, settings.num_proc)
    cpus = LSFUtils.get_num_cores(hosts[0].hostname) * LSFUtils.get_num_threads(hosts[0].hostname)
    share = max(1, cpus // (gpus or max(host.slots for host in hosts)))
    lines = ["overlapping_rs: allow", "cpu_index_using: logical"]
    for slot in ranks:
        lines += [""] if slot.local_rank == 0 else []  # between hosts
        first = slot.local_rank * share
        places = f"cpu: {{{first}-{first + share - 1}}} ; gpu: * ; mem: *"
        lines.append(f"rank: {slot.rank}: {{ hostname: {slot.hostname}; {places} }}")
    if path is None:
        descriptor, path = tempfile.mkstemp(prefix="horovod-jsrun-", suffix=".erf")
        os.close(descriptor)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def get_command(settings: Settings, rankfile: str | None, command: Sequence[str] | str) -> str:
    """Return the shell command that starts the job; without a rank file by ``settings.binding_args``."""
    binding = settings.binding_args or f"--erf_input {shlex.quote(str(rankfile))}"
    output = settings.output_filename
    options = [*(_SMPI_FLAGS_TCP if settings.tcp_flag else _SMPI_FLAGS), *filter(None, [settings.extra_mpi_args])]
    parts = [
        "jsrun",
        binding,
        *([f"--stdio_stderr {shlex.quote(output)} --stdio_stdout {shlex.quote(output)}"] if output else []),
        *([f"--smpiargs {shlex.quote(' '.join(options))}"] if options else []),
        command if isinstance(command, str) else shlex.join(command),
    ]
    return " ".join(parts)


def js_run(
    settings: Settings,
    nics: Sequence[str] | None,
    env: Mapping[str, str],
    command: Sequence[str] | str,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> None:
    """Start the job and wait for its end. Ranks meet over MPI, or where that is not usable at the first host.

    Raises
    ------
    RuntimeError
        When there is no jsrun, or it ended with a non-zero status.
    ValueError
        When the hosts can't take the job.
    """
    if shutil.which("jsrun", path=env.get("PATH")) is None:
        raise RuntimeError(
            "horovod does not find the jsrun command. Run on the launch node of an LSF job whose machine has IBM's Job "
            "Step Manager, or without --jsrun."
        )
    environment = dict(env)
    environment.setdefault("MASTER_ADDR", parse_hosts(settings.hosts)[0].hostname)
    if nics:
        environment["NCCL_SOCKET_IFNAME"] = ",".join(nics)
    rankfile = None if settings.binding_args else generate_jsrun_rankfile(settings)
    try:
        run_external(get_command(settings, rankfile, command), settings, environment, stdout, stderr)
    finally:
        if rankfile is not None:
            os.unlink(rankfile)


def launch_jsrun(
    command: Sequence[str], settings: Settings, env: Mapping[str, str], function: bytes | None = None
) -> dict[int, bytes]:
    """Start the job through jsrun and wait for its end; see :func:`horovod.runner.external.launch_external`."""
    return launch_external(
        lambda environment: js_run(settings, settings.nics, environment, command), settings, env, function
    )
