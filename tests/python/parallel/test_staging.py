"""Tensors that the transports cannot reach go through a copy in host memory; here every tensor is treated so."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from horovod.torch import _ops


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ops, "reachable", torch.Tensor.clone)


def test_results_come_back_and_inputs_stay() -> None:
    rank, size = hvd.rank(), hvd.size()
    mine = torch.full((3,), float(rank))
    total = [size * (size - 1) / 2] * 3
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == total
    assert [t.tolist() for t in hvd.grouped_allreduce([mine, mine], op=hvd.Sum)] == [total] * 2
    assert hvd.broadcast(mine, size - 1).tolist() == [size - 1] * 3
    assert hvd.allgather(mine[:1].clone()).tolist() == list(range(size))
    assert hvd.alltoall(torch.full((size,), rank)).tolist() == list(range(size))
    assert hvd.reducescatter(torch.ones(size), op=hvd.Sum).tolist() == [size]
    assert mine.tolist() == [rank] * 3


def test_in_place_operations_write_into_the_tensor() -> None:
    rank, size = hvd.rank(), hvd.size()
    total = size * (size - 1) / 2
    mine = torch.full((3,), float(rank))
    assert hvd.allreduce_(mine, op=hvd.Sum) is mine
    assert mine.tolist() == [total] * 3
    group = [torch.full((2,), float(rank)), torch.full((4,), float(rank))]
    hvd.grouped_allreduce_(group, op=hvd.Sum)
    assert [t.tolist() for t in group] == [[total] * 2, [total] * 4]
    other = torch.full((3,), float(rank))
    assert hvd.broadcast_(other, 0) is other
    assert other.tolist() == [0.0] * 3
