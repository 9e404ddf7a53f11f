"""These tests run inside every rank of a job: ``horovodrun -np N python -m pytest tests/python/keras``.

Keras' backend is TensorFlow, or what KERAS_BACKEND says: torch or jax. TF_USE_LEGACY_KERAS=1 tests ``tf_keras``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest
from common import BACKEND, LEGACY

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

MODULES = ["horovod.tensorflow.keras"] * (BACKEND == "tensorflow") + ["horovod.keras"] * (not LEGACY)


@pytest.fixture(scope="session", params=MODULES)
def hvd(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """One of the two modules, with an engine."""
    module = importlib.import_module(request.param)
    module.init(process_sets="dynamic")
    yield module
    module.shutdown()


@pytest.fixture
def keras(hvd: ModuleType) -> ModuleType:
    """The Keras that the module is for."""
    found = hvd.keras
    found.utils.set_random_seed(1 + hvd.rank())  # other weights on every rank, until they are broadcast
    return found


@pytest.fixture
def data(hvd: ModuleType) -> SimpleNamespace:
    """Every rank's own batches."""
    import numpy as np

    x = np.random.RandomState(10 + hvd.rank()).rand(32, 3).astype("float32")
    return SimpleNamespace(x=x, y=x.sum(1, keepdims=True))
