"""JAX and PyTorch in one process share the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import pytest


@pytest.fixture
def torch() -> Iterator[ModuleType]:
    """PyTorch, which lies in another environment: RODA_TEST_TORCH is the folder of packages that has it."""
    before = sys.path.copy()
    sys.path.append(os.environ.get("RODA_TEST_TORCH", ""))
    yield pytest.importorskip("torch")
    sys.path[:] = before


def test_operations_of_both_are_under_way_at_once(torch: ModuleType) -> None:
    import horovod.torch as torch_hvd

    assert (torch_hvd.rank(), torch_hvd.size()) == (hvd.rank(), hvd.size())
    total = float(sum(range(hvd.size())))
    reduce = jax.jit(lambda x: hvd.allreduce(x, name="jax", op=hvd.Sum))

    def of_torch() -> int:
        return torch_hvd.allreduce_async(torch.full((4,), float(hvd.rank())), name="torch", op=torch_hvd.Sum)

    if hvd.rank() == 0:  # ranks may begin with either
        handle = of_torch()
        summed = reduce(jnp.full(3, float(hvd.rank())))
    else:
        summed = reduce(jnp.full(3, float(hvd.rank())))
        handle = of_torch()
    assert summed.tolist() == [total] * 3
    assert torch_hvd.synchronize(handle).tolist() == [total] * 4
