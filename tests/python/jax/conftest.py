"""These tests run inside every rank of a job: ``horovodrun -np N python -m pytest tests/python/jax``."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import horovod.jax as hvd  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def job() -> Iterator[None]:
    """One engine for the session, with dynamic process sets."""
    hvd.init(process_sets="dynamic")
    yield
    hvd.shutdown()


@pytest.fixture
def two_ranks() -> None:
    """Skip a test that one rank can't run alone."""
    if hvd.size() == 1:
        pytest.skip("needs two ranks")


@pytest.fixture(params=["eager", "compiled"])
def run(request: pytest.FixtureRequest) -> object:
    """Run a function of arrays as it is, and compiled."""
    return jax.jit if request.param == "compiled" else lambda function: function
