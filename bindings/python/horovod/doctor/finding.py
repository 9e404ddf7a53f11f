"""What the doctor finds, and the lines that mend it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OK = "ok"
ABSENT = "absent"  # not usable here, and nothing depends on it unless it was asked for
WARNING = "warning"  # usable, and worth a look
BROKEN = "broken"  # is there and does not work


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    section : str
        The part of the page it belongs to.
    name : str
        What a user asks for it by: ``shm``, ``torch``.
    state : str
        One of ``ok``, ``absent``, ``warning``, ``broken``.
    text : str
        What was found.
    mend : str
        The line that would make it usable here; empty when there is none.
    path : str
        The file that was found.
    figures : mapping
        What was measured, with the unit in the key.
    """

    section: str
    name: str
    state: str
    text: str
    mend: str = ""
    path: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_usable(self) -> bool:
        """Tell whether a job can use it."""
        return self.state in (OK, WARNING)


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


def install_line(debian: str, fedora: str) -> str:
    """Return the command of this system that installs a system package."""
    as_root = "" if os.geteuid() == 0 else "sudo "
    if shutil.which("apt-get"):
        return f"{as_root}apt-get install -y {debian}"
    if shutil.which("dnf"):
        return f"{as_root}dnf install -y {fedora}"
    return f"install what Debian calls {debian} and Fedora {fedora}"


def pip_line(requirement: str, options: str = "") -> str:
    """Return the command that installs a Python package, also where this Python has no pip."""
    pip = "pip" if importlib.util.find_spec("pip") else "python3 -m ensurepip && python3 -m pip"
    return " ".join(part for part in (pip, "install", options, requirement) if part)
