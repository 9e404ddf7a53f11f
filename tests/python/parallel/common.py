"""What several test files need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import horovod.torch as hvd
import torch
from horovod.common.process_sets import ProcessSet

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCIBLE = INTEGERS + FLOATS
MOVABLE = [*REDUCIBLE, torch.bool]


def tolerance(dtype: torch.dtype) -> float:
    """Return the relative error that reductions of small numbers may have."""
    return {torch.float16: 2e-2, torch.bfloat16: 8e-2, torch.float32: 1e-5}.get(dtype, 1e-12)


def inputs(shape: tuple[int, ...], dtype: torch.dtype, lowest: int = -4, highest: int = 5) -> list[torch.Tensor]:
    """Return the inputs of all ranks: small integers, different on every rank, known to all."""
    generator = torch.Generator().manual_seed(sum(shape) + 7)
    lowest = max(0, lowest) if dtype in (torch.uint8, torch.bool) else lowest
    return [torch.randint(lowest, highest, shape, generator=generator).to(dtype) for _ in range(hvd.size())]


def close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Tell whether a result is right in dtype, shape and value."""
    assert actual.dtype == expected.dtype, f"{actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    if not expected.dtype.is_floating_point:
        return torch.equal(actual, expected)
    bound = tolerance(expected.dtype)
    return torch.allclose(actual.double(), expected.double(), rtol=bound, atol=bound)


@contextmanager
def process_set(ranks: list[int]) -> Iterator[ProcessSet]:
    """A process set for the duration of a block, on all ranks."""
    added = hvd.add_process_set(ranks)
    try:
        yield added
    finally:
        hvd.remove_process_set(added)
