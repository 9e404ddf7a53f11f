"""Float8 tensors travel, and are not reduced."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch

FLOAT8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
each_dtype = pytest.mark.parametrize("dtype", FLOAT8, ids=str)


def bytes_of(rank: int, rows: int) -> torch.Tensor:
    """Every byte there is, NaNs too, in an order of the rank's own."""
    return ((torch.arange(rows * 256).view(rows, 256) * 7 + rank * 13) % 256).to(torch.uint8)


def test_this_torch_has_float8() -> None:
    if not FLOAT8:
        pytest.skip("this torch has no float8")
    assert len(FLOAT8) == 2


@each_dtype
def test_allgather(dtype: torch.dtype) -> None:
    parts = [bytes_of(rank, rank + 1) for rank in range(hvd.size())]
    got = hvd.allgather(parts[hvd.rank()].view(dtype))
    assert got.dtype == dtype
    assert torch.equal(got.view(torch.uint8), torch.cat(parts))
    pair = hvd.grouped_allgather([parts[hvd.rank()].view(dtype)] * 2)
    assert all(torch.equal(one.view(torch.uint8), torch.cat(parts)) for one in pair)


@each_dtype
def test_broadcast(dtype: torch.dtype) -> None:
    for root in range(hvd.size()):
        got = hvd.broadcast(bytes_of(hvd.rank(), 3).view(dtype), root)
        assert got.dtype == dtype
        assert torch.equal(got.view(torch.uint8), bytes_of(root, 3))


@each_dtype
def test_alltoall(dtype: torch.dtype) -> None:
    got = hvd.alltoall(bytes_of(hvd.rank(), hvd.size()).view(dtype))
    assert got.dtype == dtype
    expected = torch.stack([bytes_of(rank, hvd.size())[hvd.rank()] for rank in range(hvd.size())])
    assert torch.equal(got.view(torch.uint8), expected)


@each_dtype
@pytest.mark.parametrize("title", ["Allreduce", "Reducescatter", "Reduce"])
def test_reductions_are_refused_everywhere(dtype: torch.dtype, title: str) -> None:
    tensor = bytes_of(0, hvd.size()).view(dtype)
    call = {
        "Allreduce": lambda: hvd.allreduce(tensor, name="eight bits", op=hvd.Sum),
        "Reducescatter": lambda: hvd.reducescatter(tensor, name="eight bits", op=hvd.Sum),
        "Reduce": lambda: hvd.reduce(tensor, 0, name="eight bits", op=hvd.Sum),
    }[title]
    name = str(dtype).removeprefix("torch.")
    words = rf"{title} of {name} tensor '\w+\.eight bits', op sum: {name} can be gathered.*Convert the tensor to"
    with pytest.raises((ValueError, hvd.HorovodInternalError), match=words):
        call()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
