"""A host's agent, as the launcher speaks to it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import IO, Any

from horovod.runner.boot import agent_text, boot_command
from horovod.runner.common.util.settings import Settings
from horovod.runner.frames import take_frame
from horovod.runner.reach import Reach
from horovod.runner.util.remote import remote_arguments

_MOST_OF_ERRORS = 1 << 16


@dataclass
class HostJob:
    """The ranks that one host's agent is to run."""

    hostname: str
    is_local: bool
    slots: list[dict[str, Any]]  # rank and environment of each
    reach: Reach | None = None  # without it the address in the environment is not tried first


@dataclass
class Connection:
    """A running agent."""

    host: HostJob
    process: subprocess.Popen[bytes]
    errors: IO[bytes] | None = None  # what the remote shell writes to its standard error
    buffer: bytearray = field(default_factory=bytearray)
    _taken: int = 0

    def send(self, data: bytes) -> None:
        """Write to the agent at once, if it is still there."""
        with contextlib.suppress(OSError):
            os.write(self.process.stdin.fileno(), data)  # type: ignore[union-attr]

    def send_all(self, data: bytes) -> None:
        """Write to the agent, in as many parts as its pipe takes, if it is still there."""
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self.process.stdin.fileno(), data) :]  # type: ignore[union-attr]

    def take_errors(self) -> str:
        """Return what the remote shell has written to its standard error since the last call."""
        data = os.pread(self.errors.fileno(), _MOST_OF_ERRORS, self._taken) if self.errors is not None else b""
        self._taken += len(data)
        return data.decode(errors="replace")

    def frames(self, data: bytes) -> Any:
        """Yield the frames that `data` completes; FrameError at what is none."""
        self.buffer += data
        while (frame := take_frame(self.buffer, self.host.hostname)) is not None:
            yield frame


def read_some(fd: int, count: int) -> bytes:
    """Read from a pipe, or from a connection in its place, whose hard end counts as an end."""
    try:
        return os.read(fd, count)
    except ConnectionError:
        return b""


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _agent_command(settings: Settings, host: HostJob) -> list[str]:
    if host.is_local:
        return boot_command(sys.executable)
    boot = boot_command(sys.executable)[1:]
    python = shlex.quote(sys.executable)
    shell = (
        f"cd {shlex.quote(os.getcwd())} > /dev/null 2>&1 ; "
        f"python={python} ; [ -x $python ] || python=python3 ; exec $python {shlex.join(boot)}"
    )
    return remote_arguments(settings, host.hostname, shell)


def start_agent(settings: Settings, host: HostJob) -> Connection:
    """Start the agent of a host, which greets first.

    Raises
    ------
    FileNotFoundError
        When what brings commands to the host is not there.
    """
    command = _agent_command(settings, host)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(
            f"Host {host.hostname} is reached by {command[0]}, which is not there: install it (Debian: "
            "openssh-client), or name another command with --rsh-agent"
        )
    errors = None if host.is_local else tempfile.TemporaryFile()  # noqa: SIM115 (for as long as the connection)
    process = subprocess.Popen(  # not by horovod.child: it is spoken with for as long as the job lasts
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        stderr=errors or (None if _is_open(2) else subprocess.DEVNULL),
        start_new_session=True,  # a Ctrl-C on the terminal reaches the launcher alone
    )
    connection = Connection(host, process, errors)
    connection.send(agent_text())
    return connection
