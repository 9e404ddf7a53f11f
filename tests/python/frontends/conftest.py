"""What trains with PyTorch by another interface; every rank of a job runs these tests."""

from __future__ import annotations

import horovod.torch as hvd
import pytest


@pytest.fixture(scope="session", autouse=True)
def job() -> None:
    hvd.init()
