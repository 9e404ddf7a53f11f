"""Batch normalisation with statistics over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from horovod.common.basics import Sum
from horovod.torch.mpi_ops import allgather, allreduce, size


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Drop-in for ``torch.nn.BatchNorm*``: mean and variance are those of the whole job's batch.

    The collectives have fixed names, so several layers must run in the same order on all ranks. Batches may differ in
    size between ranks, and may be empty on some. The gradients of weight and bias are those of this rank's batch.

    Parameters
    ----------
    num_features : int
        Channels, the second dimension of the input.
    eps, momentum, affine, track_running_stats
        As in ``torch.nn.BatchNorm2d``.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 (torch's name)
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (torch's name)
        """Normalise."""
        self._check_input_dim(input)
        use_batch = self.training or not self.track_running_stats
        if self.training and self.track_running_stats:
            self.num_batches_tracked += 1
        if not use_batch or size() == 1:
            factor = self._averaging_factor() if self.training and self.track_running_stats else 0.0
            return functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, use_batch, factor, self.eps
            )
        output, mean, variance, count = _Normalise.apply(input, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats:
            self._update_running(mean, variance, count)
        return output

    def _averaging_factor(self) -> float:
        return 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum

    @torch.no_grad()
    def _update_running(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        factor = self._averaging_factor()
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)


def _statistics(x: torch.Tensor, dims: list[int], eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the count, mean and variance of every channel over the batches of all ranks."""
    rows = x.numel() // x.shape[1] if x.shape[1] else 0
    count = torch.tensor([rows], dtype=x.dtype, device=x.device)
    zeros = x.new_zeros(x.shape[1])
    mean = x.mean(dims) if rows else zeros
    variance = x.var(dims, unbiased=False) if rows else zeros
    counts = allgather(count, "sync_batch_norm.count").view(-1, 1)
    means = allgather(mean.view(1, -1), "sync_batch_norm.mean")
    inverses = allgather((variance + eps).rsqrt().view(1, -1), "sync_batch_norm.invstd")
    total = counts.sum().clamp(min=1)
    mean = (counts * means).sum(0) / total
    variance = (counts * (inverses.pow(-2) - eps + (means - mean) ** 2)).sum(0) / total
    return total, mean, variance.clamp(min=0)


class _Normalise(torch.autograd.Function):
    """Forward gathers count, mean and inverse deviation of every rank; backward sums two vectors per layer."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Any, bias: Any, eps: float) -> tuple[torch.Tensor, ...]:  # noqa: A002
        dims = [d for d in range(input.dim()) if d != 1]
        x = input if input.dtype == torch.float64 else input.float()
        total, mean, variance = _statistics(x, dims, eps)
        inverse = (variance + eps).rsqrt()
        shape = [1, -1] + [1] * (x.dim() - 2)
        normal = (x - mean.view(shape)) * inverse.view(shape)
        ctx.save_for_backward(normal, weight, inverse, total)
        ctx.dims, ctx.shape, ctx.has_bias = dims, shape, bias is not None
        output = normal if weight is None else normal * weight.to(x.dtype).view(shape)
        output = output if bias is None else output + bias.to(x.dtype).view(shape)
        ctx.mark_non_differentiable(mean, variance, total)
        return output.to(input.dtype), mean, variance, total

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor, *_: Any) -> tuple[Any, ...]:
        normal, weight, inverse, total = ctx.saved_tensors
        dims, shape = ctx.dims, ctx.shape
        grad = grad_output.to(normal.dtype)
        grad_weight, grad_bias = (grad * normal).sum(dims), grad.sum(dims)
        sum_dy = allreduce(grad_bias, name="sync_batch_norm.sum_dy", op=Sum)
        sum_dy_xmu = allreduce(grad_weight, name="sync_batch_norm.sum_dy_xmu", op=Sum)
        centred = grad - (sum_dy / total).view(shape) - normal * (sum_dy_xmu / total).view(shape)
        scale = inverse if weight is None else inverse * weight.to(normal.dtype)
        return (
            (centred * scale.view(shape)).to(grad_output.dtype),
            None if weight is None else grad_weight.to(weight.dtype),
            grad_bias.to(weight.dtype if weight is not None else grad.dtype) if ctx.has_bias else None,
            None,
        )
