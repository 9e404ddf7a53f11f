"""SyncBatchNorm equals batch normalisation of the joined batch in one process, forward and backward."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch

SHAPES = {"rows": (4,), "lines": (4, 5), "images": (4, 3, 2), "volumes": (4, 2, 3, 2)}


def joined_batch(kind: str, dtype: torch.dtype, rows: list[int]) -> torch.Tensor:
    channels, *rest = SHAPES[kind]
    generator = torch.Generator().manual_seed(len(rest))
    return torch.randn(sum(rows), channels, *rest, generator=generator, dtype=torch.float64).mul(3).add(5).to(dtype)


def own_rows(tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    return tensor.split(rows)[hvd.rank()]


def reference(kind: str, **options: object) -> torch.nn.Module:
    layers = {1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm2d, 4: torch.nn.BatchNorm3d}
    return layers[len(SHAPES[kind])](4, **options)


def train(layer: torch.nn.Module, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone().requires_grad_()
    y = layer(x)
    (y.to(scale.dtype) * scale).sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("uneven", [False, True])
def test_equals_one_process(kind: str, dtype: torch.dtype, uneven: bool) -> None:
    rows = [r + 2 if uneven else 3 for r in range(hvd.size())]
    x = joined_batch(kind, dtype, rows)
    scale = torch.linspace(-1, 2, x.numel(), dtype=dtype).view_as(x)
    alone, synced = reference(kind).to(dtype), hvd.SyncBatchNorm(4).to(dtype)
    for layer in (alone, synced):
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(0.5, 2, 4))
            layer.bias.copy_(torch.linspace(-1, 1, 4))
    bound = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    for _ in range(2):
        expected = train(alone, x, scale)
        actual = train(synced, own_rows(x, rows), own_rows(scale, rows))
        for wanted, got in zip(expected, actual):
            assert torch.allclose(own_rows(wanted, rows), got, **bound)
        assert torch.allclose(alone.running_mean, synced.running_mean, **bound)
        assert torch.allclose(alone.running_var, synced.running_var, **bound)
        assert synced.num_batches_tracked == alone.num_batches_tracked
    # The gradients of weight and bias are this rank's: their sum is the joined batch's.
    for wanted, got in ((alone.weight, synced.weight), (alone.bias, synced.bias)):
        assert torch.allclose(wanted.grad, hvd.allreduce(got.grad, op=hvd.Sum), **bound)


def test_a_rank_without_data() -> None:
    rows = [0 if r == hvd.size() - 1 and r > 0 else 3 for r in range(hvd.size())]
    x = joined_batch("images", torch.float64, rows)
    alone, synced = reference("images").double(), hvd.SyncBatchNorm(4).double()
    expected = train(alone, x, torch.ones_like(x) * x)
    actual = train(synced, own_rows(x, rows), own_rows(x, rows))
    for wanted, got in zip(expected, actual):
        assert torch.allclose(own_rows(wanted, rows), got)
    assert torch.allclose(alone.running_var, synced.running_var)


@pytest.mark.parametrize(
    "options",
    [{"affine": False}, {"momentum": None}, {"track_running_stats": False}, {"eps": 0.1, "momentum": 0.5}],
    ids=str,
)
def test_options(options: dict[str, object]) -> None:
    rows = [3] * hvd.size()
    x = joined_batch("images", torch.float64, rows)
    alone, synced = reference("images", **options).double(), hvd.SyncBatchNorm(4, **options).double()
    for training in (True, True, False):
        alone.train(training)
        synced.train(training)
        assert torch.allclose(own_rows(alone(x), rows), synced(own_rows(x, rows)))


def test_half_precision_keeps_its_dtype() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        rows = [3] * hvd.size()
        x = joined_batch("images", dtype, rows)
        y, grad = train(hvd.SyncBatchNorm(4), own_rows(x, rows), torch.ones_like(own_rows(x, rows)))
        assert y.dtype == grad.dtype == dtype
        assert torch.allclose(y.float(), own_rows(reference("images")(x.float()), rows), rtol=0.05, atol=0.05)


def test_too_few_dimensions() -> None:
    with pytest.raises(ValueError, match="expected at least 2D input"):
        hvd.SyncBatchNorm(4)(torch.ones(4))
