"""Commands of which nothing is left when they are stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from horovod.runner.output import LineForwarder

GRACEFUL_TERMINATION_TIME_S = 5

_CHUNK = 1 << 16
_POLL_S = 0.1

# Ends the process group $1 when its input closes without a line: then the process that started it is gone.
_WATCHER = 'read -r _ || { kill -s TERM -- "-$1"; sleep "$2"; kill -s KILL -- "-$1"; } 2>/dev/null'


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the second: only a zombie is left, on some systems
        return False
    return True


def terminate_group(process: subprocess.Popen[bytes]) -> None:
    """Ask all of a command's processes to end, and kill what is left after GRACEFUL_TERMINATION_TIME_S."""
    group = process.pid
    deadline = time.monotonic() + GRACEFUL_TERMINATION_TIME_S
    if not _signal_group(group, signal.SIGTERM):
        return
    while time.monotonic() < deadline:
        process.poll()  # reaps the leader: a zombie would keep the group alive
        if not _signal_group(group, 0):
            return
        time.sleep(_POLL_S / 4)
    _signal_group(group, signal.SIGKILL)


def prefix_connection(
    src_connection: Any, dst_stream: Any, prefix: str | None, index: int | None, prefix_output_with_timestamp: bool
) -> None:
    """Forward lines to their end, each with ``[<index>]<<prefix>>:`` in front, and close where they came from.

    Parameters
    ----------
    src_connection
        A file or connection with a descriptor (``fileno``), of bytes in UTF-8.
    dst_stream : text file
        A closed file takes nothing more, but the source is still read to its end.
    prefix : str, optional
        The stream's name, such as ``stdout``; without it, or `index`, nothing stands in front.
    index : int, optional
        The rank.
    prefix_output_with_timestamp : bool
        Put the time before that.
    """

    def write(text: str) -> None:
        # A target that was closed must not stop the command, which would wait for its pipe to be read.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            dst_stream.write(text)
            dst_stream.flush()

    forwarder = LineForwarder(write, index, prefix, time.asctime if prefix_output_with_timestamp else None)
    while data := os.read(src_connection.fileno(), _CHUNK):
        forwarder.feed(data)
    forwarder.close()
    src_connection.close()


def execute(
    command: str | Sequence[str],
    env: Mapping[str, str] | None = None,
    stdout: IO[str] | Any | None = None,
    stderr: IO[str] | Any | None = None,
    index: int | None = None,
    events: Iterable[threading.Event] | None = None,
    prefix_output_with_timestamp: bool = False,
) -> int:
    """Run a command in a process group of its own, forward what it prints, and return its exit code.

    Returns when the command ended and whoever inherited its output closed that.

    Parameters
    ----------
    command : str or sequence of str
        For the shell; a sequence is run without one.
    env : mapping, optional
        Its whole environment; without it, this process's.
    stdout, stderr : text file, optional
        Where its output goes, line by line; without them, to this process's own.
    index : int, optional
        Begin every line with ``[<index>]<stdout>:`` or ``[<index>]<stderr>:``.
    events : iterable of threading.Event, optional
        Any of them ends the command and its children: SIGTERM, and SIGKILL after GRACEFUL_TERMINATION_TIME_S.
        So does an exception that ends this call, such as KeyboardInterrupt, and the end of this process.
    prefix_output_with_timestamp : bool
        Put the time before that.

    Returns
    -------
    int
        128 and the number of the signal for a command that was killed by one.
    """
    events = list(events or ())
    process = subprocess.Popen(
        command,
        shell=isinstance(command, str),  # noqa: S602 (what this function is for)
        env=None if env is None else dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", _WATCHER, "sh", str(process.pid), str(GRACEFUL_TERMINATION_TIME_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    streams: list[tuple[Any, Any, str]] = [
        (process.stdout, stdout or sys.stdout, "stdout"),
        (process.stderr, stderr or sys.stderr, "stderr"),
    ]
    threads = [
        threading.Thread(
            target=prefix_connection, args=(source, target, name, index, prefix_output_with_timestamp), daemon=True
        )
        for source, target, name in streams
    ]
    try:
        for thread in threads:
            thread.start()
        stopped = False
        while process.poll() is None or any(thread.is_alive() for thread in threads):
            if any(event.is_set() for event in events):
                stopped = True
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
            for thread in threads:
                thread.join(0 if process.returncode is None else _POLL_S)
        if stopped:
            terminate_group(process)
    except BaseException:
        terminate_group(process)
        raise
    finally:
        with contextlib.suppress(OSError):
            watcher.communicate(b"\n")
        if process.poll() is None:
            process.wait()
    for thread in threads:
        thread.join(GRACEFUL_TERMINATION_TIME_S)  # what left the process group may still hold the pipe
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
