"""Names of Horovod whose mechanism there is not here: using one says what to use instead."""

from __future__ import annotations

from typing import Any


def absent_class(name: str, instead: str) -> type:
    """Return a class that can be imported and derived from; making an object of it is a NotImplementedError."""

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{name} is not a part of Roda's launcher, which works otherwise. {instead}")

    return type(name, (), {"__init__": refuse, "__doc__": f"Not here. {instead}"})
