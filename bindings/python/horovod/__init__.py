"""Roda: Horovod's Python API over a C++ engine. Importing this package imports no framework."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from horovod import conflict
from horovod.version import __version__, roda_version

conflict.check()

__all__ = ["__version__", "roda_version", "run"]

if TYPE_CHECKING:
    from horovod.runner import run


_PARTS = {"common", "data", "jax", "keras", "mxnet", "ray", "runner", "spark", "tensorflow", "torch"}


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS.intersection(globals())})  # the parts that are imported


def __getattr__(name: str) -> Any:
    if name == "run":  # the launcher is only imported where it is used
        from horovod.runner import run

        return run
    if name == "_roda":  # `from horovod import _roda` asks here before it looks for the file
        return _engine()
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")


def _engine() -> ModuleType:
    """Load the engine's extension; ImportError says what this system lacks."""
    try:
        return importlib.import_module("horovod._roda")
    except ImportError as error:
        from horovod.doctor.loader import explain

        text, mend = explain(str(error))
        raise ImportError(f"Roda's engine can't be loaded: {text}. To mend it: {mend}") from error
