"""What several test files need."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np

LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")


def small_model(keras: ModuleType) -> Any:
    """Return a model of two layers."""
    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])


def assert_same(hvd: ModuleType, arrays: Any, what: str) -> None:
    """Fail where the ranks' arrays differ, or where there are none."""
    arrays = [np.asarray(array) for array in arrays]
    assert arrays
    for i, array in enumerate(arrays):
        average = hvd.allreduce(array.astype("float64"), name=f"same.{what}.{i}")
        assert np.allclose(average, array, rtol=1e-6, atol=1e-7), (what, i)


def variable(keras: ModuleType, value: Any, name: str = "weight") -> Any:
    """Return a variable as the model's are, whose name all ranks have alike."""
    if hasattr(keras, "Variable"):
        return keras.Variable(np.array(value, "float32"), name=name)
    import tensorflow as tf

    return tf.Variable(np.array(value, "float32"), name=name)


def gradient(keras: ModuleType, value: Any) -> Any:
    """Return a gradient as the backend computes it."""
    if hasattr(keras, "ops"):
        return keras.ops.convert_to_tensor(np.array(value, "float32"))
    import tensorflow as tf

    return tf.constant(value, "float32")
