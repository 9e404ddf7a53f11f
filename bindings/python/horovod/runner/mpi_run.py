"""Launching through mpirun: builds its command line and waits for its end."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import IO

from horovod import child
from horovod.runner.common.util.env import exportable
from horovod.runner.common.util.hosts import HostInfo, parse_hosts
from horovod.runner.common.util.settings import Settings
from horovod.runner.external import launch_external, run_external

_OMPI_IMPL = "OpenMPI"
_SMPI_IMPL = "SpectrumMPI"
_MPICH_IMPL = "MPICH"
_IMPI_IMPL = "IntelMPI"
_UNKNOWN_IMPL = "Unknown"
_MISSING_IMPL = "Missing"

_OMPI_FLAGS = ["-mca pml ob1", "-mca btl ^openib"]
_SMPI_FLAGS: list[str] = []
_SMPI_FLAGS_TCP = ["-tcp"]
_MPICH_FLAGS: list[str] = []
_IMPI_FLAGS: list[str] = []

_NO_BINDING_ARGS = ["-bind-to none", "-map-by slot"]
_SOCKET_BINDING_ARGS = ["-bind-to socket", "-map-by socket", "-rank-by core"]

_LARGE_CLUSTER_THRESHOLD = 64
_ANSWER_SECONDS = 60.0

_NOT_FOUND = (
    "horovod does not find an installed MPI.\n\n"
    "Choose one of:\n"
    "1. Install Open MPI 4.0.0+, MPICH, Intel MPI or IBM Spectrum MPI, so that `mpirun` is on the PATH.\n"
    "2. Run without --mpi: horovodrun starts the processes itself then.\n"
)

# How the output of `mpirun --version` names them; before the one that each descends from, and may name, too.
_MARKS = (
    (_SMPI_IMPL, ("IBM Spectrum MPI",)),
    (_OMPI_IMPL, ("Open MPI", "OpenRTE")),
    (_IMPI_IMPL, ("Intel(R) MPI",)),
    (_MPICH_IMPL, ("MPICH", "HYDRA")),
)


def implementation_in(output: str) -> str | None:
    """Return which MPI an output of ``mpirun --version`` names; None for one that is not known."""
    return next((name for name, marks in _MARKS if any(mark in output for mark in marks)), None)


def _version_text(env: Mapping[str, str] | None) -> str | None:
    """Return what the ``mpirun`` of the PATH prints as its version; None when there is none that works."""
    done = child.run(["mpirun", "--version"], _ANSWER_SECONDS, env)
    return done.stdout + done.stderr if done.status == 0 else None


def _get_mpi_implementation(env: Mapping[str, str] | None = None) -> str:
    """Return which MPI the ``mpirun`` of the PATH belongs to."""
    text = _version_text(env)
    return _MISSING_IMPL if text is None else implementation_in(text) or _UNKNOWN_IMPL


def _open_mpi_binding_args(env: Mapping[str, str] | None) -> list[str]:
    """Return the arguments in the spelling of this Open MPI: from 5 on, words of one dash are no options."""
    version = re.search(r"\(Open MPI\) (\d+)\.", _version_text(env) or "")
    dash = "-" if version is not None and int(version[1]) >= 5 else ""
    return [dash + option for option in _NO_BINDING_ARGS]


def mpi_available(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether there is an mpirun of a known kind."""
    return _get_mpi_implementation(env) not in (_UNKNOWN_IMPL, _MISSING_IMPL)


def is_open_mpi(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether mpirun is Open MPI's."""
    return _get_mpi_implementation(env) == _OMPI_IMPL


def is_spectrum_mpi(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether mpirun is IBM Spectrum MPI's."""
    return _get_mpi_implementation(env) == _SMPI_IMPL


def is_mpich(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether mpirun is MPICH's."""
    return _get_mpi_implementation(env) == _MPICH_IMPL


def is_intel_mpi(env: Mapping[str, str] | None = None) -> bool:
    """Tell whether mpirun is Intel MPI's."""
    return _get_mpi_implementation(env) == _IMPI_IMPL


def _get_mpi_implementation_flags(
    tcp_flag: bool, env: Mapping[str, str] | None = None
) -> tuple[list[str] | None, list[str] | None, str | None]:
    """Return the flags of the MPI that is there, its default binding arguments, and its name; None thrice without one.

    Parameters
    ----------
    tcp_flag : bool
        Without InfiniBand.
    env : mapping, optional
        Where to look for mpirun.
    """
    name = _get_mpi_implementation(env)
    if name == _OMPI_IMPL:
        return list(_OMPI_FLAGS), _open_mpi_binding_args(env), name
    if name == _SMPI_IMPL:
        return list(_SMPI_FLAGS_TCP if tcp_flag else _SMPI_FLAGS), list(_SOCKET_BINDING_ARGS), name
    if name == _MPICH_IMPL:
        return list(_MPICH_FLAGS), list(_NO_BINDING_ARGS), name
    if name == _IMPI_IMPL:
        return list(_IMPI_FLAGS), [], name
    return None, None, None


def _host_arguments(settings: Settings, hosts: Sequence[HostInfo], is_hydra: bool) -> list[str]:
    if not is_hydra:
        return ["-H", settings.hosts]
    slots = {host.slots for host in hosts}
    if len(slots) > 1:
        raise ValueError("Different slots in -hosts parameter are not supported in Intel(R) MPI and MPICH.")
    return ["-ppn", str(slots.pop()), "-hosts", ",".join(host.hostname for host in hosts)]


def _ssh_arguments(settings: Settings, is_hydra: bool) -> list[str]:
    if settings.remote_shell:
        agent = shlex.quote(settings.remote_shell)
        return [f"-launcher ssh -launcher-exec {agent}" if is_hydra else f"-mca plm_rsh_agent {agent}"]
    options = []
    if settings.ssh_port:
        options.append(f"-p {settings.ssh_port}")
    if settings.ssh_identity_file:
        options.append(f"-i {settings.ssh_identity_file}")
    if not options:
        return []
    text = shlex.quote(" ".join(options))
    return ["-bootstrap=ssh", "-bootstrap-exec-args", text] if is_hydra else ["-mca plm_rsh_args", text]


def _interface_arguments(nics: Sequence[str], is_hydra: bool) -> list[str]:
    if not nics:
        return []
    names = ",".join(nics)
    if not is_hydra:
        return [f"-mca btl_tcp_if_include {names}", f"-x NCCL_SOCKET_IFNAME={names}"]
    if len(nics) > 1:
        raise ValueError("Multiple NICs are not supported in Intel(R) MPI and MPICH: name one.")
    return [f"-iface {names}", f"-genv NCCL_SOCKET_IFNAME {names}"]


def _large_cluster_arguments(hosts: Sequence[HostInfo], is_hydra: bool) -> list[str]:
    if is_hydra or len(hosts) < _LARGE_CLUSTER_THRESHOLD:
        return []
    return ["-mca plm_rsh_no_tree_spawn true", f"-mca plm_rsh_num_concurrent {len(hosts)}"]


def _output_arguments(settings: Settings, is_hydra: bool) -> list[str]:
    arguments = []
    if settings.prefix_output_with_timestamp and not is_hydra:
        arguments.append("--timestamp-output")
    if settings.output_filename:
        option = "-outfile-pattern" if is_hydra else "--output-filename"
        arguments.append(f"{option} {shlex.quote(settings.output_filename)}")
    return arguments


def _environment_arguments(env: Mapping[str, str], is_hydra: bool) -> list[str]:
    if is_hydra:
        return []
    # mpirun takes names that a shell could have; functions and the like have others.
    return [f"-x {name}" for name in sorted(exportable(env)) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]


def get_command(settings: Settings, nics: Sequence[str], env: Mapping[str, str], command: Sequence[str] | str) -> str:
    """Return the shell command that starts the job.

    Parameters
    ----------
    settings : Settings
        Hosts and options.
    nics : sequence of str
        Interfaces to use; empty for MPI's choice.
    env : mapping
        The environment whose exportable variables reach the processes.
    command : sequence of str or str
        What each process executes.

    Raises
    ------
    RuntimeError
        When there is no MPI.
    ValueError
        When the MPI that is there cannot do what was asked for.
    """
    flags, binding, name = _get_mpi_implementation_flags(settings.tcp_flag, env)
    if flags is None or binding is None:
        raise RuntimeError(_NOT_FOUND)
    is_hydra = name in (_MPICH_IMPL, _IMPI_IMPL)
    if settings.binding_args and not is_hydra:
        binding = [settings.binding_args]
    hosts = parse_hosts(settings.hosts)
    parts = [
        "mpirun",
        "-l" if is_hydra else "--allow-run-as-root --tag-output",
        f"-np {settings.num_proc}",
        *_host_arguments(settings, hosts, is_hydra),
        *binding,
        *flags,
        *_ssh_arguments(settings, is_hydra),
        *_large_cluster_arguments(hosts, is_hydra),
        *_interface_arguments(nics, is_hydra),
        *_output_arguments(settings, is_hydra),
        *_environment_arguments(env, is_hydra),
        *([settings.extra_mpi_args] if settings.extra_mpi_args else []),
        command if isinstance(command, str) else shlex.join(command),
    ]
    return " ".join(parts)


def mpi_run(
    settings: Settings,
    nics: Sequence[str] | None,
    env: Mapping[str, str],
    command: Sequence[str] | str,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> None:
    """Start the job and wait for its end.

    Raises
    ------
    RuntimeError
        When there is no MPI, or mpirun ended with a non-zero status.
    """
    environment = dict(env)
    environment["PATH"] = env.get("PATH") or os.environ.get("PATH", os.defpath)
    run_external(get_command(settings, nics or [], environment, command), settings, environment, stdout, stderr)


def launch_mpi(
    command: Sequence[str], settings: Settings, env: Mapping[str, str], function: bytes | None = None
) -> dict[int, bytes]:
    """Start the job through mpirun and wait for its end; see :func:`horovod.runner.external.launch_external`."""
    return launch_external(
        lambda environment: mpi_run(settings, settings.nics, environment, command), settings, env, function
    )
