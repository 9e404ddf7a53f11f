"""Autograd functions of the collectives. Gradients follow Horovod's conventions (gathers average, scatters gather).

Backward passes are made of these functions again, so that gradients can be differentiated (``create_graph=True``).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horovod import _roda
from horovod.common.basics import Average, HorovodBasics, Sum
from horovod.common.process_sets import ProcessSet
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.torch import _ops

reduction = get_average_backwards_compatibility_fun(HorovodBasics)


def needs_gradient(*tensors: Tensor) -> bool:
    """Tell whether somebody differentiates what is computed from one of these."""
    if torch.is_grad_enabled():
        for tensor in tensors:  # noqa: SIM110 (a generator costs more than all else here)
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                return True
    return False


def _averaged(grad: Tensor, process_set: ProcessSet, wire_format: int = 0) -> Tensor:
    return HorovodAllreduce.apply(grad.contiguous(), None, None, Average, 1.0, 1.0, process_set, wire_format)


def _own_rows(gathered: Tensor, rows: int, process_set: ProcessSet) -> Tensor:
    """Return this rank's slice of a tensor gathered from ranks that each gave some number of rows."""
    counts = _ops.execute(_ops.prepare_allgather(torch.tensor([rows], dtype=torch.int64), None, process_set))
    rank = process_set.rank() or 0
    return gathered.narrow(0, int(counts[:rank].sum()), rows)


def _scatter_factor(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> float:
    return (process_set.size() or 1 if op == Sum else 1) * prescale * postscale


class HorovodAllreduce(torch.autograd.Function):
    """Gradient: the same allreduce of the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: Tensor,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        wire_format: int = 0,
    ) -> Tensor:
        """Reduce."""
        op = reduction(op, average)
        ctx.arguments = (op, prescale_factor, postscale_factor, process_set, wire_format)
        return _ops.execute(_ops.prepare_allreduce(tensor, False, name, *ctx.arguments))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        """Reduce the gradient."""
        return (HorovodAllreduce.apply(grad_output.contiguous(), None, None, *ctx.arguments), *[None] * 7)


class GroupedAllreduce(torch.autograd.Function):
    """Gradient: the same grouped allreduce of the gradients."""

    @staticmethod
    def forward(ctx: Any, arguments: tuple[Any, ...], name: str | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Reduce; `arguments` are those of :func:`_ops.prepare_grouped_allreduce` behind the name."""
        ctx.arguments = arguments
        return _ops.execute(_ops.prepare_grouped_allreduce(tensors, False, name, *arguments))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Any, ...]:
        """Reduce the gradients."""
        grads = [grad.contiguous() for grad in grad_outputs]
        return (None, None, *GroupedAllreduce.apply(ctx.arguments, None, *grads))


class HorovodGroupedAllreduce(GroupedAllreduce):
    """The same with Horovod's arguments."""

    @classmethod
    def apply(
        cls,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: Tensor,
    ) -> Any:
        """Reduce."""
        arguments = (reduction(op, average), prescale_factor, postscale_factor, process_set)
        return GroupedAllreduce.apply(arguments, name, *tensors)


class HorovodAllgather(torch.autograd.Function):
    """Gradient: this rank's slice of the averaged gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, process_set: ProcessSet, wire_format: int = 0) -> Tensor:
        """Gather."""
        ctx.rows, ctx.process_set = tensor.shape[0] if tensor.dim() else 0, process_set
        ctx.wire_format = wire_format
        return _ops.execute(_ops.prepare_allgather(tensor, name, process_set, wire_format))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        """Average, then slice."""
        averaged = _averaged(grad_output, ctx.process_set, ctx.wire_format)
        return _own_rows(averaged, ctx.rows, ctx.process_set), None, None, None


class HorovodGroupedAllgather(torch.autograd.Function):
    """Gradient: this rank's slices of the averaged gradients."""

    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Gather."""
        ctx.rows, ctx.process_set = [tensor.shape[0] if tensor.dim() else 0 for tensor in tensors], process_set
        return _ops.execute(_ops.prepare_grouped_allgather(tensors, name, process_set))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Any, ...]:
        """Average, then slice."""
        grads = [grad.contiguous() for grad in grad_outputs]
        process_set = ctx.process_set
        averaged = GroupedAllreduce.apply((Average, 1.0, 1.0, process_set), None, *grads)
        slices = [_own_rows(grad, rows, process_set) for grad, rows in zip(averaged, ctx.rows)]
        return (None, None, *slices)


class HorovodBroadcast(torch.autograd.Function):
    """Gradient: the averaged gradient on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> Tensor:
        """Broadcast."""
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return _ops.execute(_ops.prepare_broadcast(tensor, False, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        """Average; drop it off the root."""
        grad = _averaged(grad_output, ctx.process_set)
        # The same graph on every rank: whoever differentiates the gradient meets the others in the allreduce.
        dropped = torch.tensor(_roda.rank() != ctx.root_rank, device=grad.device)
        return grad.masked_fill(dropped, 0), None, None, None


class HorovodAlltoall(torch.autograd.Function):
    """Gradient: the gradient sent back along the received splits."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> tuple[Tensor, Tensor]:
        """Exchange."""
        output, received = _ops.execute(_ops.prepare_alltoall(tensor, splits, name, process_set))
        ctx.received, ctx.process_set, ctx.shape = received, process_set, tensor.shape
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Any) -> tuple[Any, ...]:
        """Exchange back; rows that were not sent have no gradient."""
        grad, _ = HorovodAlltoall.apply(grad_output.contiguous(), ctx.received, None, ctx.process_set)
        if grad.shape != ctx.shape:
            padded = grad.new_zeros(ctx.shape)
            padded[: grad.shape[0]] = grad
            grad = padded
        return grad, None, None, None


class HorovodReducescatter(torch.autograd.Function):
    """Gradient: the gathered gradient, times the number of ranks for a sum, times the factors."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        wire_format: int = 0,
    ) -> Tensor:
        """Reduce and scatter."""
        ctx.factor = _scatter_factor(op, prescale_factor, postscale_factor, process_set)
        ctx.process_set, ctx.wire_format = process_set, wire_format
        arguments = (op, process_set, prescale_factor, postscale_factor, wire_format)
        return _ops.execute(_ops.prepare_reducescatter(tensor, name, *arguments))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        """Gather."""
        grad = (grad_output * ctx.factor).contiguous()
        return (HorovodAllgather.apply(grad, None, ctx.process_set, ctx.wire_format), *[None] * 6)


class GroupedReducescatter(torch.autograd.Function):
    """Gradient: as :class:`HorovodReducescatter`, with one grouped allgather."""

    @staticmethod
    def forward(ctx: Any, arguments: tuple[Any, ...], name: str | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Reduce and scatter; `arguments` are those of :func:`_ops.prepare_grouped_reducescatter` behind the name."""
        op, process_set, prescale_factor, postscale_factor = arguments[:4]
        ctx.factor = _scatter_factor(op, prescale_factor, postscale_factor, process_set)
        ctx.process_set = process_set
        return _ops.execute(_ops.prepare_grouped_reducescatter(tensors, name, *arguments))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Any, ...]:
        """Gather."""
        grads = [(grad * ctx.factor).contiguous() for grad in grad_outputs]
        return (None, None, *HorovodGroupedAllgather.apply(None, ctx.process_set, *grads))


class HorovodGroupedReducescatter(GroupedReducescatter):
    """The same with Horovod's arguments."""

    @classmethod
    def apply(
        cls,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: Tensor,
    ) -> Any:
        """Reduce and scatter."""
        arguments = (op, process_set, prescale_factor, postscale_factor)
        return GroupedReducescatter.apply(arguments, name, *tensors)
