"""Roda: Horovod's Python API over a C++ engine. Importing this package imports no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horovod import conflict
from horovod.version import __version__

conflict.check()

__all__ = ["__version__", "run"]

if TYPE_CHECKING:
    from horovod.runner import run


def __getattr__(name: str) -> Any:
    if name == "run":  # the launcher is only imported where it is used
        from horovod.runner import run

        return run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
