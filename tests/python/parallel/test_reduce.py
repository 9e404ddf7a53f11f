"""reduce: the root alone gets the result."""

from __future__ import annotations

from functools import reduce as fold

import horovod.torch as hvd
import pytest
import torch
from common import REDUCIBLE, close, inputs, process_set


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
def test_reduce_to_every_root_by_every_op(dtype: torch.dtype) -> None:
    parts = inputs((17, 3), dtype)
    stacked = torch.stack([part.double() for part in parts])
    expected = {
        hvd.Sum: stacked.sum(0),
        hvd.Min: stacked.amin(0),
        hvd.Max: stacked.amax(0),
        hvd.Average: stacked.mean(0) if dtype.is_floating_point else (stacked.sum(0) / len(parts)).trunc(),
    }
    for root in range(hvd.size()):
        for op, result in expected.items():
            mine = parts[hvd.rank()].clone()
            got = hvd.reduce(mine, root, op=op)
            assert torch.equal(mine, parts[hvd.rank()])
            assert got is None if hvd.rank() != root else close(got, result.to(dtype))


def test_product_and_factors() -> None:
    root = hvd.size() - 1
    product = hvd.reduce(torch.tensor([2.0, float(hvd.rank() + 1)]), root, op=hvd.Product)
    scaled = hvd.reduce(torch.ones(3), root, op=hvd.Sum, prescale_factor=3.0, postscale_factor=0.5)
    if hvd.rank() == root:
        assert product.tolist() == [2.0 ** hvd.size(), fold(lambda a, b: a * b, range(1, hvd.size() + 1), 1.0)]
        assert scaled.tolist() == [1.5 * hvd.size()] * 3
    else:
        assert product is None
        assert scaled is None


def test_in_place_and_asynchronous() -> None:
    total = float(sum(range(1, hvd.size() + 1)))
    for root in range(hvd.size()):
        is_root = hvd.rank() == root
        mine = torch.full((100_003,), float(hvd.rank() + 1))
        assert hvd.reduce_(mine, root, op=hvd.Sum) is mine
        assert mine.unique().tolist() == [total if is_root else float(hvd.rank() + 1)]
        given = torch.full((5,), float(hvd.rank() + 1))
        handles = [hvd.reduce_async(given, root, name=f"apart.{i}", op=hvd.Sum) for i in range(3)]
        within = torch.full((5,), float(hvd.rank() + 1))
        handle = hvd.reduce_async_(within, root, name="within", op=hvd.Sum)
        for result in map(hvd.synchronize, handles):
            assert result is None if not is_root else result.tolist() == [total] * 5
        assert hvd.synchronize(handle) is within
        assert within.tolist() == [total if is_root else float(hvd.rank() + 1)] * 5
        assert given.tolist() == [float(hvd.rank() + 1)] * 5


def test_in_a_process_set_the_root_is_a_world_rank() -> None:
    if hvd.size() < 2:
        pytest.skip("a lone rank has no other set than the global one")
    members = list(range(hvd.size() - 1, -1, -2))
    with process_set(members) as some:
        for root in sorted(members):
            if hvd.rank() not in members:
                continue
            result = hvd.reduce(torch.ones(4), root, op=hvd.Sum, process_set=some)
            assert result is None if hvd.rank() != root else result.tolist() == [float(len(members))] * 4


def test_what_is_refused() -> None:
    with pytest.raises((ValueError, hvd.HorovodInternalError), match="reduce received invalid root rank"):
        hvd.reduce(torch.ones(2), hvd.size(), name="no such root")
    with pytest.raises((ValueError, hvd.HorovodInternalError), match="Reduce has no Adasum"):
        hvd.reduce(torch.ones(2), 0, name="adasum", op=hvd.Adasum)
    if hvd.size() > 1:
        with pytest.raises(hvd.HorovodInternalError, match="Mismatched REDUCE root ranks"):
            hvd.reduce(torch.ones(2), 1 if hvd.rank() == 1 else 0, name="two roots")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
