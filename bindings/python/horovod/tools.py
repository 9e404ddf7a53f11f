"""Console scripts that replace themselves by the programs inside the package."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn


def _execute(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    if not program.exists():
        sys.exit(f"{name} was not built into this installation.")
    os.execv(program, [name, *sys.argv[1:]])  # noqa: S606 (our own program, the user's arguments)


def config() -> None:
    """Print what building a plugin needs: ``--cflags`` for the headers, ``--plugindir`` for where plugins lie."""
    headers = [file for file in metadata.files("roda") or () if file.match("roda/abi/types.h")]
    answers = {
        "--cflags": f"-I{Path(headers[0].locate()).resolve().parents[2]}" if headers else "",
        "--plugindir": str(Path(__file__).parent / "lib" / "roda" / "plugins"),
    }
    if len(sys.argv) != 2 or sys.argv[1] not in answers:
        print(f"usage: roda-config {' | '.join(answers)}", file=sys.stderr)
        sys.exit(2)
    print(answers[sys.argv[1]])


def conformance() -> NoReturn:
    """Run ``roda-conformance``."""
    _execute("roda-conformance")


def info() -> NoReturn:
    """Run ``roda-info``."""
    _execute("roda-info")


def perf() -> NoReturn:
    """Run ``roda-perf``."""
    _execute("roda-perf")


def sim() -> NoReturn:
    """Run ``roda-sim``."""
    _execute("roda-sim")
