"""The doctor's findings, and the lines that mend them."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
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
