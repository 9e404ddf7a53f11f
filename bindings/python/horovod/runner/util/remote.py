"""Command lines that run something on another host."""

from __future__ import annotations

import shlex

from horovod.runner.common.util.env import is_kubeflow_mpi
from horovod.runner.common.util.hosts import plain_name
from horovod.runner.common.util.settings import Settings

SSH_COMMAND_PREFIX = "ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no"
_KUBEFLOW_AGENT = "/etc/mpi/kubexec.sh"
_CONNECT_SECONDS = 10


def get_ssh_command(
    local_command: str,
    host: str,
    port: int | None = None,
    identity_file: str | None = None,
    timeout_s: int | None = None,
) -> str:
    """Return the command line that runs something on a host by ssh.

    Parameters
    ----------
    local_command : str
        What to run; the shell of this host reads it first, so quote what only that of the other one may read.
    host : str
        Its name or address.
    port : int, optional
        Of its ssh server.
    identity_file : str, optional
        The private key.
    timeout_s : int, optional
        Seconds for connecting.
    """
    options = _ssh_options(port, identity_file, timeout_s)
    return " ".join([SSH_COMMAND_PREFIX, plain_name(host), *options, local_command])


def _ssh_options(port: int | None, identity_file: str | None, timeout_s: int | None) -> list[str]:
    options = [
        f"-p {port}" if port is not None else "",
        f"-i {shlex.quote(identity_file)}" if identity_file is not None else "",
        f"-o ConnectTimeout={timeout_s}" if timeout_s is not None else "",
    ]
    return list(filter(None, options))


def get_remote_command(
    local_command: str,
    host: str,
    port: int | None = None,
    identity_file: str | None = None,
    timeout_s: int | None = None,
) -> str:
    """Return the command line by ssh, or by what the Kubeflow MPI operator has in its place."""
    if is_kubeflow_mpi():
        return f"{_KUBEFLOW_AGENT} {host} {local_command}"
    return get_ssh_command(local_command, host, port, identity_file, timeout_s)


def remote_arguments(settings: Settings, hostname: str, command: str) -> list[str]:
    """Return the arguments, no shell's, that run the shell command `command` on a host as a job's settings say."""
    host = plain_name(hostname)
    if settings.remote_shell:
        return [*shlex.split(settings.remote_shell), host, command]
    if is_kubeflow_mpi():
        return [_KUBEFLOW_AGENT, host, command]
    options = _ssh_options(settings.ssh_port, settings.ssh_identity_file, _CONNECT_SECONDS)
    return [*shlex.split(" ".join([SSH_COMMAND_PREFIX, *options])), "--", host, command]
