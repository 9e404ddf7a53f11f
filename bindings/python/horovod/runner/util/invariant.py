"""Invariants hold whatever users, workers and machines do: where one does not, the code is wrong; the job ends."""

from __future__ import annotations

import sys
from pathlib import PurePath


class InvariantError(RuntimeError):
    """An invariant is broken; the text says which, and where it is stated."""


def require(holds: bool, sentence: str) -> None:
    """Raise InvariantError with the caller's line unless the invariant that the sentence states `holds`."""
    if holds:
        return
    caller = sys._getframe(1)
    parts = PurePath(caller.f_code.co_filename).parts
    package = len(parts) - 1 - parts[::-1].index("horovod") if "horovod" in parts else 0
    raise InvariantError(
        f"A fault in Roda itself, and not in the program: it does not hold that {sentence} "
        f"({'/'.join(parts[package:])}:{caller.f_lineno}). Please report it with the workers' flight recorders."
    )
