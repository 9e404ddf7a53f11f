"""From a class here to the public class of one Keras."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def bind(impl: type, keras: ModuleType, base: str | None = "Callback") -> type:
    """Return the public class of an implementation here: a callback of that Keras."""
    bases = (impl, *([getattr(keras.callbacks, base)] if base else []))
    return type(impl.__name__.removesuffix("Impl"), bases, {"keras": keras, "__doc__": impl.__doc__})


BesideCallback: Any = object  # the implementations' base: in a public class a callback of Keras comes after it
