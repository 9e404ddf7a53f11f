"""These tests run inside every rank of a job: ``horovodrun -np N python -m pytest tests/python/parallel``."""

from __future__ import annotations

from collections.abc import Iterator

import horovod.torch as hvd
import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def job() -> Iterator[None]:
    """One engine for the session, with dynamic process sets."""
    torch.set_num_threads(1)
    hvd.init(process_sets="dynamic")
    yield
    hvd.shutdown()


@pytest.fixture(autouse=True)
def same_seed() -> None:
    """Ranks draw the same random numbers unless a test seeds them apart."""
    torch.manual_seed(1234)
