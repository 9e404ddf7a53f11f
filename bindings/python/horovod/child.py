"""A command that is run to its end for what it prints."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

MOST_OF_OUTPUT = 1 << 20  # characters of a stream that are kept
_END_SECONDS = 3.0  # for a command to obey a signal


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its status (None: it took too long and was ended) and what it printed.

    Each stream is cut after ``MOST_OF_OUTPUT`` characters and one more, by which a caller sees that it was cut.
    """

    status: int | None
    stdout: str
    stderr: str

    @property
    def why(self) -> str:
        """The last line of words that it printed, or how it ended."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if re.search(r"\w", line)]
        if self.status is None:
            return "it did not end in time" + (f"; its last line: {lines[-1]}" if lines else "")
        if self.status < 0:
            return f"it was ended by {signal.Signals(-self.status).name}"
        return lines[-1] if lines else f"it ended with status {self.status} and printed nothing"


def _most_of(pipe: IO[str]) -> str:
    """Read to the end, whatever is kept: who prints is not held up."""
    with pipe:
        kept = pipe.read(MOST_OF_OUTPUT + 1)
        while pipe.read(1 << 16):
            continue
    return kept


def run(
    command: Sequence[str],
    limit: float,
    environment: Mapping[str, str] | None = None,
    may_ask: bool = False,
) -> Ended:
    """Run a command for at most `limit` seconds.

    With `may_ask` the command keeps the terminal, where ssh asks for a passphrase; else all that it starts ends with
    it. A program that lives on beside this one, such as a host's agent, is started where it is spoken with.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 (programs of this installation and the user's own)
            command,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=not may_ask,
        )
    except OSError as error:
        return Ended(127, "", f"{command[0]}: {error.strerror}")
    printed: dict[str, str] = {}

    def read(name: str, pipe: IO[str]) -> None:
        printed[name] = _most_of(pipe)

    readers = [
        threading.Thread(target=read, args=each, name="roda-child", daemon=True)
        for each in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    for reader in readers:
        reader.start()
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(sign) if may_ask else os.killpg(process.pid, sign)
        deadline = time.monotonic() + (limit if sign is None else _END_SECONDS)
        for reader in readers:
            reader.join(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
            if len(printed) == len(readers):
                return Ended(process.returncode if sign is None else None, printed["stdout"], printed["stderr"])
    return Ended(None, printed.get("stdout", ""), printed.get("stderr", ""))
