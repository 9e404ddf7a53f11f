"""allgather, broadcast, alltoall, reducescatter."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import MOVABLE, REDUCIBLE, close, inputs


def rows_of(rank: int, dtype: torch.dtype, rows: int, width: int = 3) -> torch.Tensor:
    """Rows that tell which rank they are from."""
    return (torch.arange(rows * width).view(rows, width) + rank).to(dtype)


# --- allgather ---


@pytest.mark.parametrize("dtype", MOVABLE, ids=str)
def test_allgather_with_uneven_rows(dtype: torch.dtype) -> None:
    size = hvd.size()
    parts = [rows_of(rank, dtype, 2 * rank + 1) for rank in range(size)]
    assert close(hvd.allgather(parts[hvd.rank()]), torch.cat(parts))


def test_allgather_where_some_ranks_have_nothing() -> None:
    parts = [rows_of(rank, torch.float32, rank % 2) for rank in range(hvd.size())]
    assert close(hvd.allgather(parts[hvd.rank()]), torch.cat(parts))
    nothing = torch.zeros(0, 4)
    assert hvd.allgather(nothing).shape == (0, 4)


def test_allgather_changes_its_size_from_call_to_call() -> None:
    for rows in (1, 5, 2, 2, 0, 9):
        parts = [rows_of(rank, torch.int64, rows + rank) for rank in range(hvd.size())]
        assert close(hvd.allgather(parts[hvd.rank()], name="changing"), torch.cat(parts))


def test_allgather_of_one_dimension_and_of_large_tensors() -> None:
    parts = [torch.full((100_000 + rank,), float(rank)) for rank in range(hvd.size())]
    assert close(hvd.allgather(parts[hvd.rank()]), torch.cat(parts))


def test_grouped_allgather() -> None:
    size, rank = hvd.size(), hvd.rank()
    groups = [
        [rows_of(r, dtype, r + extra) for r in range(size)] for dtype, extra in ((torch.float32, 1), (torch.int16, 0))
    ]
    for given in ([group[rank] for group in groups], (group[rank] for group in groups)):
        results = hvd.grouped_allgather(given, name="gathers")
        assert len(results) == 2
        assert all(close(result, torch.cat(group)) for result, group in zip(results, groups))


def test_gathered_memory_outlives_the_handle() -> None:
    first = hvd.allgather(torch.full((1000,), float(hvd.rank())))
    copy = first.clone()
    for _ in range(20):
        hvd.allgather(torch.full((1000,), -1.0))
    assert torch.equal(first, copy)


# --- broadcast ---


@pytest.mark.parametrize("dtype", MOVABLE, ids=str)
def test_broadcast_from_every_root(dtype: torch.dtype) -> None:
    values = inputs((4, 5), dtype, 0, 2)
    for root in range(hvd.size()):
        mine = values[hvd.rank()].clone()
        assert close(hvd.broadcast(mine, root), values[root])
        assert torch.equal(mine, values[hvd.rank()])
        assert hvd.broadcast_(mine, root, name=f"root{root}") is mine
        assert close(mine, values[root])


def test_broadcast_of_scalars_and_of_nothing() -> None:
    assert hvd.broadcast(torch.tensor(float(hvd.rank() + 3)), 0).item() == 3.0
    assert hvd.broadcast(torch.zeros(0), 0).shape == (0,)


def test_broadcast_from_a_root_that_is_not_there() -> None:
    with pytest.raises(ValueError):
        hvd.broadcast(torch.ones(2), hvd.size())


# --- alltoall ---


@pytest.mark.parametrize("dtype", MOVABLE, ids=str)
def test_alltoall_with_splits(dtype: torch.dtype) -> None:
    size, rank = hvd.size(), hvd.rank()
    sends = [[rows_of(10 * sender + to, dtype, (sender + to) % 3) for to in range(size)] for sender in range(size)]
    splits = torch.tensor([len(part) for part in sends[rank]], dtype=torch.int32)
    output, received = hvd.alltoall(torch.cat(sends[rank]), splits)
    assert close(output, torch.cat([sends[sender][rank] for sender in range(size)]))
    assert received.dtype == torch.int32
    assert received.tolist() == [len(sends[sender][rank]) for sender in range(size)]


def test_alltoall_without_splits_returns_the_output_alone() -> None:
    size, rank = hvd.size(), hvd.rank()
    output = hvd.alltoall(torch.arange(2 * size) + 100 * rank)
    assert torch.equal(output, torch.cat([torch.arange(2 * rank, 2 * rank + 2) + 100 * r for r in range(size)]))
    output, received = hvd.synchronize(hvd.alltoall_async(torch.zeros(size)))
    assert output.shape == (size,)
    assert received.tolist() == [1] * size


@pytest.mark.parametrize("splits", [[], torch.zeros(0, dtype=torch.int32)], ids=["list", "tensor"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_alltoall_with_empty_splits_divides_evenly(splits: object, requires_grad: bool) -> None:
    size, rank = hvd.size(), hvd.rank()
    tensor = (torch.arange(2.0 * size) + 100 * rank).requires_grad_(requires_grad)
    output, received = hvd.alltoall(tensor, splits)
    assert close(output.detach(), torch.cat([torch.arange(2.0 * rank, 2 * rank + 2) + 100 * r for r in range(size)]))
    assert received.tolist() == [2] * size


def test_alltoall_may_send_less_than_it_has_and_nothing() -> None:
    size = hvd.size()
    output, received = hvd.alltoall(torch.arange(size + 5), [1] * size)
    assert output.tolist() == [hvd.rank()] * size
    assert received.tolist() == [1] * size
    output, received = hvd.alltoall(torch.zeros(4, 2), [0] * size)
    assert output.shape == (0, 2)
    assert received.tolist() == [0] * size


@pytest.mark.parametrize(
    ("rows", "splits", "text"),
    [
        (4, torch.ones(2, 2, dtype=torch.int32), "alltoall expects a 1D splits tensor"),
        (4, torch.ones(2, dtype=torch.int64), "alltoall expects splits to contain 32-bit integer elements."),
        (4, [1.5] * 2, "alltoall expects splits to contain 32-bit integer elements."),
        (1, "too many", "Sum of splits entries is greater than"),
        (4, "too long", "Number of entries in splits does not equal"),
    ],
)
def test_bad_splits_are_refused_at_the_call(rows: int, splits: object, text: str) -> None:
    size = hvd.size()
    splits = [2] * size if splits == "too many" else [0] * (size + 1) if splits == "too long" else splits
    with pytest.raises(ValueError, match=text):
        hvd.alltoall(torch.zeros(rows), splits)


def test_rows_that_cannot_be_divided_are_refused() -> None:
    if hvd.size() == 1:
        pytest.skip("one rank divides everything")
    with pytest.raises(ValueError, match="splits not provided, but first dimension of tensor"):
        hvd.alltoall(torch.zeros(hvd.size() + 1))


# --- reducescatter ---


def share(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's rows of a tensor: the first ranks get one row more when they cannot be divided."""
    rank, (rows, extra) = hvd.rank(), divmod(len(tensor), hvd.size())
    begin = rank * rows + min(rank, extra)
    return tensor[begin : begin + rows + (rank < extra)]


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
def test_reducescatter(dtype: torch.dtype, op: int) -> None:
    for rows in (hvd.size() * 2, hvd.size() + 1, 1, 0):
        values = inputs((rows, 5), dtype)
        total = torch.stack([v.double() for v in values]).sum(0) / (hvd.size() if op == hvd.Average else 1)
        assert close(hvd.reducescatter(values[hvd.rank()], op=op), share(total.to(dtype)))


def test_reducescatter_with_factors() -> None:
    values = inputs((8, 2), torch.float64)
    result = hvd.reducescatter(values[hvd.rank()], op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    assert close(result, share(torch.stack(values).sum(0) * 0.5))


def test_grouped_reducescatter() -> None:
    values = [inputs((rows, 2), torch.float32) for rows in (6, 3, 9)]
    results = hvd.grouped_reducescatter([v[hvd.rank()] for v in values], op=hvd.Sum)
    assert isinstance(results, list)
    assert all(close(result, share(torch.stack(v).sum(0))) for result, v in zip(results, values))


def test_reducescatter_refuses_scalars_and_other_reductions() -> None:
    with pytest.raises(ValueError):
        hvd.reducescatter(torch.tensor(1.0))
    with pytest.raises(hvd.HorovodInternalError, match="Reducescatter currently only supports AVERAGE and SUM."):
        hvd.synchronize(hvd.reducescatter_async(torch.ones(4), op=hvd.Max))
