"""These tests run inside every rank of a job: ``horovodrun -np N python -m pytest tests/python/tensorflow``."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import horovod.tensorflow as hvd  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def job() -> Iterator[None]:
    """One engine for the session, with dynamic process sets."""
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init(process_sets="dynamic")
    yield
    hvd.shutdown()


@pytest.fixture(params=["eager", "function"])
def run(request: pytest.FixtureRequest) -> object:
    """Run a function of tensors as its ops come, and as a graph."""
    return tf.function if request.param == "function" else lambda function: function
