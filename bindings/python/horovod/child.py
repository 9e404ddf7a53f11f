"""A command that is run to its end for what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its status (None: it took too long and was ended) and what it printed."""

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


def run(command: Sequence[str], limit: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command for at most `limit` seconds, with all that it starts."""
    try:
        process = subprocess.Popen(  # noqa: S603 (programs of this installation and the user's own mpirun)
            command,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Ended(127, "", f"{command[0]}: {error.strerror}")
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None:
            os.killpg(process.pid, sign)
        try:
            stdout, stderr = process.communicate(timeout=limit if sign is None else 3)
        except subprocess.TimeoutExpired:
            continue
        return Ended(process.returncode if sign is None else None, stdout, stderr)
    return Ended(None, "", "")
