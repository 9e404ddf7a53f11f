"""These tests run inside every rank of a job: ``horovodrun -np N python -m pytest tests/python/mxnet``."""

from __future__ import annotations

from collections.abc import Iterator

import horovod.mxnet as hvd
import pytest


@pytest.fixture(scope="session", autouse=True)
def job() -> Iterator[None]:
    """One engine for the session, with dynamic process sets."""
    hvd.init(process_sets="dynamic")
    yield
    hvd.shutdown()
