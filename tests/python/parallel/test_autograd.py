from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import process_set


def weights(shape: tuple[int, ...]) -> torch.Tensor:
    """Gradients that differ between ranks."""
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape) * (hvd.rank() + 1)


def total(shape: tuple[int, ...]) -> torch.Tensor:
    size = hvd.size()
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape) * (size * (size + 1) / 2)


def test_allreduce() -> None:
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1.0 / hvd.size())):
        x = torch.ones(2, 3, requires_grad=True)
        hvd.allreduce(x, op=op, prescale_factor=2.0).backward(weights((2, 3)))
        assert torch.allclose(x.grad, total((2, 3)) * factor * 2.0)


def test_grouped_allreduce() -> None:
    x, y = torch.ones(3, requires_grad=True), torch.ones(4, requires_grad=True)
    outputs = hvd.grouped_allreduce([x, y], op=hvd.Sum)
    assert isinstance(outputs, list)
    a, b = outputs
    torch.autograd.backward([a, b], [weights((3,)), weights((4,))])
    assert torch.allclose(x.grad, total((3,)))
    assert torch.allclose(y.grad, total((4,)))


def test_allgather_averages_and_slices() -> None:
    rank, size = hvd.rank(), hvd.size()
    rows = [r + 1 for r in range(size)]
    x = torch.ones(rank + 1, 2, requires_grad=True)
    shape = (sum(rows), 2)
    hvd.allgather(x).backward(weights(shape))
    begin = sum(rows[:rank])
    assert torch.allclose(x.grad, total(shape)[begin : begin + rank + 1] / size)


def test_grouped_allgather() -> None:
    rank, size = hvd.rank(), hvd.size()
    x, y = torch.ones(1, requires_grad=True), torch.ones(2, requires_grad=True)
    a, b = hvd.grouped_allgather([x, y])
    torch.autograd.backward([a, b], [weights((size,)), weights((2 * size,))])
    assert torch.allclose(x.grad, total((size,))[rank : rank + 1] / size)
    assert torch.allclose(y.grad, total((2 * size,))[2 * rank : 2 * rank + 2] / size)


def test_broadcast_gives_the_root_the_average() -> None:
    x = torch.ones(3, requires_grad=True)
    root = hvd.size() - 1
    hvd.broadcast(x, root).backward(weights((3,)))
    assert torch.allclose(x.grad, total((3,)) / hvd.size() if hvd.rank() == root else torch.zeros(3))


def test_alltoall_sends_gradients_back() -> None:
    rank, size = hvd.rank(), hvd.size()
    splits = [(rank + to) % 2 + 1 for to in range(size)]
    x = torch.ones(sum(splits) + 1, requires_grad=True)  # the last row is not sent
    output, received = hvd.alltoall(x, splits)
    output.backward(torch.full_like(output, rank + 1.0))
    expected = [to + 1.0 for to, rows in enumerate(splits) for _ in range(rows)] + [0.0]
    assert x.grad.tolist() == expected
    assert received.tolist() == [(sender + rank) % 2 + 1 for sender in range(size)]


def test_reducescatter_gathers() -> None:
    rank, size = hvd.rank(), hvd.size()
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
        x = torch.ones(size, 2, requires_grad=True)
        y = hvd.reducescatter(x, op=op, postscale_factor=0.5)
        y.backward(torch.full_like(y, rank + 1.0))
        expected = torch.tensor([[r + 1.0] * 2 for r in range(size)]) * factor * 0.5
        assert torch.allclose(x.grad, expected)


def test_grouped_reducescatter_gathers() -> None:
    rank, size = hvd.rank(), hvd.size()
    x, y = torch.ones(size, requires_grad=True), torch.ones(2 * size, requires_grad=True)
    outputs = hvd.grouped_reducescatter([x, y], op=hvd.Sum)
    assert isinstance(outputs, list)
    torch.autograd.backward(outputs, [torch.full_like(o, rank + 1.0) for o in outputs])
    assert x.grad.tolist() == [(r + 1.0) * size for r in range(size)]
    assert y.grad.tolist() == [(r // 2 + 1.0) * size for r in range(2 * size)]


def test_compression_is_applied_outside() -> None:
    x = torch.ones(3, requires_grad=True)
    y = hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert y.dtype == torch.float32
    y.backward(torch.ones(3))
    assert x.grad.tolist() == [hvd.size()] * 3


def test_gradients_in_a_process_set() -> None:
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    with process_set([0, 1]) as pair:
        if pair.included():
            x = torch.ones(2, requires_grad=True)
            hvd.allgather(x, process_set=pair).backward(torch.tensor([1.0, 2.0, 3.0, 4.0]))
            assert x.grad.tolist() == ([1.0, 2.0] if hvd.rank() == 0 else [3.0, 4.0])
        hvd.barrier()


def test_gradients_can_be_differentiated() -> None:
    """Penalties on gradients: every rank has the same data, so the second derivatives are known."""
    rank, size = hvd.rank(), hvd.size()
    cases = {
        "sum": (lambda x: hvd.allreduce(x, op=hvd.Sum), 12.0 * size * size),
        "average": (hvd.allreduce, 12.0),
        "group": (lambda x: hvd.grouped_allreduce([x], op=hvd.Sum)[0], 12.0 * size * size),
        "gather": (hvd.allgather, 4.0 + 8.0 / size),
        "grouped gather": (lambda x: hvd.grouped_allgather([x])[0], 4.0 + 8.0 / size),
        "broadcast": (lambda x: hvd.broadcast(x, 0), 4.0 + 8.0 / size if rank == 0 else 0.0),
        "exchange": (lambda x: hvd.alltoall(x, [1] * size)[0], 12.0),
        "scatter": (lambda x: hvd.reducescatter(x, op=hvd.Sum), 12.0 * size * size),
        "grouped scatter": (lambda x: hvd.grouped_reducescatter([x], op=hvd.Sum)[0], 12.0 * size * size),
    }
    for kind, (operation, expected) in cases.items():
        x = torch.full((size,), 3.0, requires_grad=True)
        (gradient,) = torch.autograd.grad(operation(x**2).pow(2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.sum(), x)
        assert torch.allclose(second, torch.full((size,), expected * 9.0)), kind


def test_a_gradient_that_is_not_finite_stays_off_the_other_ranks() -> None:
    x = torch.ones(2, requires_grad=True)
    hvd.broadcast(x, 0).backward(torch.full((2,), float("inf")))
    assert torch.equal(x.grad, torch.full((2,), float("inf") if hvd.rank() == 0 else 0.0))
