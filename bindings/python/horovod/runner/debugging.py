"""Ranks that somebody debugs: standard input for them (``--stdin``), a debugger that waits (``--debug``)."""

from __future__ import annotations

import importlib.util
import os
import selectors
import socket
import sys
from collections.abc import Collection, Sequence

from horovod.runner.boot import framed
from horovod.runner.common.util.settings import Settings
from horovod.runner.connection import Connection, HostJob, read_some
from horovod.runner.output import LineStream

# While a person looks at one rank, no other one ends the job for having waited.
PATIENCE = {
    "HOROVOD_STALL_CHECK_DISABLE": "1",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": str(1 << 30),
    "RODA_GPU_TIMEOUT_SECONDS": str(1 << 30),
}
_CHUNK = 1 << 16
_PORT = 5678  # what editors propose for debugpy
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # Python's options whose value is another word


def prepare(hosts: Sequence[HostJob], settings: Settings, command: Sequence[str]) -> None:
    """Have those ranks get standard input, or a debugger, that the settings name.

    Raises
    ------
    ValueError
        When there is no such rank, or no Python in the command or no debugpy here.
    """
    slots = {slot["rank"]: (host, slot) for host in hosts for slot in host.slots}
    for option, rank in (("--stdin", settings.stdin), ("--debug", settings.debug)):
        if rank not in (None, "all") and int(rank) not in slots:
            raise ValueError(f"{option} {rank}: there is no such rank; the ranks are 0 to {len(slots) - 1}")
    for number, (_, slot) in slots.items():
        slot["stdin"] = settings.stdin in ("all", str(number))
    if settings.debug is None:
        return
    if importlib.util.find_spec("debugpy") is None:
        raise ValueError("--debug needs debugpy: pip install debugpy")
    host, slot = slots[settings.debug]
    port = _PORT if not host.is_local or _is_free(_PORT) else _free_port()
    slot["command"] = _with_debugger(command, port)
    slot["environment"]["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning about Python's own frozen modules
    where = "" if host.is_local else f" on {host.hostname} (ssh -L {port}:127.0.0.1:{port} {host.hostname})"
    print(
        f"horovodrun: rank {settings.debug} waits for a debugger at 127.0.0.1:{port}{where}; the other ranks wait "
        "without a time-out",
        file=sys.stderr,
    )


def _with_debugger(command: Sequence[str], port: int) -> list[str]:
    """Put debugpy between Python with its options and the script or module."""
    if not os.path.basename(command[0]).startswith("python"):
        raise ValueError(f"--debug needs a command that begins with python, and this one begins with {command[0]}")
    at = 1
    while at < len(command) and command[at].startswith("-") and command[at] not in ("-m", "-c"):
        at += 2 if command[at] in _WITH_VALUE else 1
    debugger = ["-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client"]
    return [*command[:at], *debugger, *command[at:]]


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class StandardInput:
    """This process's standard input, on its way to the ranks that have it: the next piece when one was taken.

    Parameters
    ----------
    selector : BaseSelector
        The loop's, in which this stands whenever more may be read.
    connections : sequence of Connection
        The agents of those ranks.
    shown : collection of LineStream
        What the user sees: a line that somebody types at a terminal ends one there.
    """

    def __init__(
        self, selector: selectors.BaseSelector, connections: Sequence[Connection], shown: Collection[LineStream]
    ) -> None:
        self._selector, self._connections, self._shown = selector, connections, shown
        self._awaited = 0  # agents whose ranks have not taken the last piece
        self._wait()

    def fileno(self) -> int:
        """Return the descriptor."""
        return 0

    def _wait(self) -> None:
        try:
            self._selector.register(self, selectors.EVENT_READ)
        except PermissionError:  # a file: it can be read at once
            self._pass_on()

    def calm(self) -> None:
        """Read a piece and pass it on."""
        self._selector.unregister(self)
        self._pass_on()

    def _pass_on(self) -> None:
        data = read_some(0, _CHUNK)
        self._awaited = len(self._connections) if data else -1  # an empty piece is the end
        if data.endswith(b"\n") and os.isatty(0):
            for lines in self._shown:
                lines.end_line()
        for connection in self._connections:
            connection.send_all(b"I" + framed(data))

    def taken(self) -> None:
        """Read on, when all agents have passed the last piece on."""
        self._awaited -= 1
        if self._awaited == 0:
            self._wait()
