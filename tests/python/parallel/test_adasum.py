"""Adasum of tensors, and the optimizer that combines updates."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import process_set


def combined(vectors: list[torch.Tensor]) -> torch.Tensor:
    """Return what Adasum makes of one vector per rank: neighbours first, then neighbours of neighbours."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2])
        vectors = [
            (1 - (a @ b) / (2 * (a @ a))) * a + (1 - (a @ b) / (2 * (b @ b))) * b if a.any() and b.any() else a + b
            for a, b in pairs
        ]
    return vectors[0]


def power_of_two() -> bool:
    return hvd.size() & (hvd.size() - 1) == 0


def inputs(length: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [torch.randn(length, generator=generator, dtype=torch.float64) for _ in range(hvd.size())]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_tensors(dtype: torch.dtype) -> None:
    bound = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-10}[dtype]
    for length in (1, 7, 1000):
        vectors = [vector.to(dtype) for vector in inputs(length)]
        if not power_of_two():
            with pytest.raises(NotImplementedError, match="non-power-of-2 ranks"):
                hvd.allreduce(vectors[hvd.rank()], op=hvd.Adasum)
            continue
        expected = combined([vector.double() for vector in vectors])
        result = hvd.allreduce(vectors[hvd.rank()], op=hvd.Adasum)
        assert result.dtype == dtype
        assert torch.allclose(result.double(), expected, rtol=bound, atol=bound)
        own = vectors[hvd.rank()].clone()
        assert hvd.allreduce_(own, op=hvd.Adasum) is own
        assert torch.equal(own, result)


def test_equal_and_orthogonal_vectors() -> None:
    if not power_of_two():
        pytest.skip("Adasum needs a power of two")
    same = torch.tensor([1.0, -2.0, 3.0])
    assert torch.allclose(hvd.allreduce(same, op=hvd.Adasum), same)
    own = torch.zeros(hvd.size())
    own[hvd.rank()] = 3.0
    assert torch.allclose(hvd.allreduce(own, op=hvd.Adasum), torch.full((hvd.size(),), 3.0))
    results = hvd.grouped_allreduce([same, own], op=hvd.Adasum)
    assert torch.allclose(results[0], same)
    assert torch.allclose(results[1], torch.full((hvd.size(),), 3.0))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16])
def test_the_optimizer_combines_updates(momentum: float, compression: type) -> None:
    if not power_of_two():
        pytest.skip("Adasum needs a power of two")
    start = [torch.tensor([[1.0, 2.0]]), torch.tensor([0.5])]
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(start[0])
        layer.bias.copy_(start[1])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layer.parameters(), lr=0.25, momentum=momentum),
        layer.named_parameters(),
        compression=compression,
        op=hvd.Adasum,
    )
    velocity = [[torch.zeros(2), torch.zeros(1)] for _ in range(hvd.size())]
    expected = [part.flatten().double() for part in start]
    for step in range(3):
        rows = [torch.tensor([[1.0, r + 1.0 + step]]) for r in range(hvd.size())]
        optimizer.zero_grad()
        layer(rows[hvd.rank()]).sum().backward()
        optimizer.step()
        for index, gradients in enumerate(zip(*((row.flatten(), torch.ones(1)) for row in rows))):
            for r, gradient in enumerate(gradients):
                velocity[r][index] = momentum * velocity[r][index] + gradient
            expected[index] += combined([(-0.25 * v[index]).double() for v in velocity])
    bound = 1e-5 if compression is hvd.Compression.none else 1e-2
    assert torch.allclose(layer.weight.flatten().double(), expected[0], rtol=bound, atol=bound)
    assert torch.allclose(layer.bias.double(), expected[1], rtol=bound, atol=bound)


def test_what_the_optimizer_refuses() -> None:
    if hvd.size() < 2:
        pytest.skip("on a lone rank it is a plain optimizer")
    layer = torch.nn.Linear(2, 1)

    def wrapped(**options: object) -> torch.optim.Optimizer:
        return hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), op=hvd.Adasum, **options)

    with process_set([0]) as first, pytest.raises(NotImplementedError):
        wrapped(process_set=first)
    with pytest.raises(ValueError, match="backward_passes_per_step must be > 0"):
        wrapped(backward_passes_per_step=0)
    optimizer = wrapped()
    optimizer.synchronize()
    with pytest.raises(AssertionError, match="Skipping synchronization is not supported"), optimizer.skip_synchronize():
        pass
    if power_of_two():
        layer(torch.ones(1, 2)).sum().backward()
        with pytest.raises(AssertionError, match=r"zero_grad.*requires_grad_\(False\)"):
            optimizer.zero_grad()
        with pytest.raises(AssertionError, match=r"more than backward_passes_per_step.*requires_grad_\(False\)"):
            layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def test_accumulated_passes_and_closures() -> None:
    if not power_of_two():
        pytest.skip("Adasum needs a power of two")
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layer.parameters(), lr=1.0), op=hvd.Adasum, backward_passes_per_step=2
    )
    layer(torch.ones(1, 2)).sum().backward()

    def closure() -> torch.Tensor:
        loss = layer(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    if hvd.size() > 1:  # a plain optimizer synchronises first and evaluates the closure as it steps
        assert optimizer.step(closure).item() == 0.0
        assert torch.allclose(layer.weight, torch.full((1, 2), -2.0))
