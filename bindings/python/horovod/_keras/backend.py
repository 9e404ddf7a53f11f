"""Which Keras is meant, and which framework it computes with."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def is_keras_2(keras: ModuleType) -> bool:
    """Tell whether it is the Keras from before there were backends."""
    return not hasattr(keras, "ops")


def keras_of(optimizer: Any, keras: ModuleType) -> ModuleType:
    """Return the Keras that an optimizer is of: the given one, or Keras 2 beside it (``tf_keras``)."""
    packages = {cls.__module__.partition(".")[0] for cls in type(optimizer).__mro__}
    return sys.modules["tf_keras"] if "tf_keras" in packages else keras


def framework_of(keras: ModuleType) -> ModuleType:
    """Return the module here that knows the framework which Keras computes with; ImportError where there is none."""
    name = keras.backend.backend()
    if name not in ("tensorflow", "torch", "jax"):
        raise ImportError(
            f"horovod.keras cannot reduce gradients of Keras' backend {name}. "
            "Set KERAS_BACKEND to tensorflow, torch or jax before keras is imported."
        )
    return importlib.import_module(f"horovod.{name}._keras")
