"""Console scripts that replace themselves by the programs inside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def _execute(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    if not program.exists():
        sys.exit(f"{name} was not built into this installation.")
    os.execv(program, [name, *sys.argv[1:]])  # noqa: S606 (our own program, the user's arguments)


def info() -> NoReturn:
    """Run ``roda-info``."""
    _execute("roda-info")


def perf() -> NoReturn:
    """Run ``roda-perf``."""
    _execute("roda-perf")


def sim() -> NoReturn:
    """Run ``roda-sim``."""
    _execute("roda-sim")
