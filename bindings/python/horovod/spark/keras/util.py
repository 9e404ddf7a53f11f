"""Keras' objects as bytes and plain values, for other processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

SUFFIX = ".keras"  # by which Keras knows its files


def serialize_model(model: Any) -> bytes:
    """Return a model as a file of Keras."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{SUFFIX}")
        model.save(path)
        return path.read_bytes()


def deserialize_model(data: bytes, custom_objects: dict[str, Any], is_compiled: bool = True) -> Any:
    """Return the model; what is in it is the user's own, and may run code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{SUFFIX}")
        path.write_bytes(data)
        return keras.models.load_model(path, custom_objects=custom_objects, compile=is_compiled, safe_mode=False)


def named(*values: Any) -> dict[str, Any]:
    """Return the functions and the classes that losses or metrics are, by the names that a saved model has for them."""
    found = {}
    for value in values:
        if isinstance(value, (list, tuple)):
            found.update(named(*value))
        elif isinstance(value, dict):
            found.update(named(*value.values()))
        elif isinstance(value, (keras.losses.Loss, keras.metrics.Metric)):
            found[type(value).__name__] = type(value)
        elif callable(value):
            found[getattr(value, "__name__", type(value).__name__)] = value
    return found


def portable(value: Any) -> Any:
    """Return an optimizer, metrics or losses, as they are given to ``compile``, without variables."""
    if isinstance(value, (list, tuple)):
        return [portable(part) for part in value]
    if isinstance(value, dict):
        return {name: portable(part) for name, part in value.items()}
    if isinstance(value, (keras.optimizers.Optimizer, keras.losses.Loss, keras.metrics.Metric)):
        is_built = isinstance(value, keras.optimizers.Optimizer) and value.built
        state = [np.array(keras.ops.convert_to_numpy(variable)) for variable in value.variables] if is_built else None
        return _Portable(keras.saving.serialize_keras_object(value), state)
    return value


class _Portable:
    def __init__(self, config: Any, state: Any) -> None:
        self.config, self.state = config, state


def restored(value: Any, custom_objects: dict[str, Any], variables: Any = ()) -> Any:
    """Return what was made :func:`portable`; an optimizer with its state for these variables, if it had one."""
    if isinstance(value, list):
        return [restored(part, custom_objects) for part in value]
    if isinstance(value, dict):
        return {name: restored(part, custom_objects) for name, part in value.items()}
    if not isinstance(value, _Portable):
        return value
    made = keras.saving.deserialize_keras_object(value.config, custom_objects=custom_objects, safe_mode=False)
    if value.state is not None and variables:
        made.build(variables)
        for variable, state in zip(made.variables, value.state):
            variable.assign(state)
    return made


def scale_rate(optimizer: Any, factor: float) -> None:
    """Multiply the learning rate, unless a schedule has it."""
    if not isinstance(optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate)) * factor
