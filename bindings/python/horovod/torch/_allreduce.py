"""Allreduce, of one tensor and of groups: a part of ``mpi_ops``, which says what holds for all collectives."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from horovod.common.compression import wire_format_of
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _ops
from horovod.torch._autograd import (
    GroupedAllreduce,
    HorovodAllreduce,
    needs_gradient,
    reduction,
)
from horovod.torch._tensors import start
from horovod.torch.compression import Compression, Compressor, compressor_of

handle_average_backwards_compatibility = reduction  # its name in Horovod


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start an allreduce into a new tensor; see :func:`allreduce`."""
    op = reduction(op, average)
    return start(*_ops.prepare_allreduce(tensor, False, name, op, prescale_factor, postscale_factor, process_set))


@_ops.note_raises
def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce a tensor over all ranks of a process set; differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, the same shape and dtype on all ranks: integers, floats or bool.
    average : bool, optional
        Deprecated: True for ``op=Average``, False for ``op=Sum``.
    name : str, optional
        The name by which the ranks match.
    compression : Compressor
        Applied to what travels. ``Compression.int8``, ``int4``, ``fp8`` and ``bf16_wire`` are formats of messages
        between hosts, of float32 sums and averages in host memory; where they can't be, the result is exact.
    op : int, optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    torch.Tensor
        New, with the shape, dtype and device of `tensor`.
    """
    op = reduction(op, average)
    compressed, context = compressor_of(compression).compress(tensor)
    arguments = (op, prescale_factor, postscale_factor, process_set, wire_format_of(compression))
    if needs_gradient(compressed):
        reduced = HorovodAllreduce.apply(compressed, None, name, *arguments)
    else:
        reduced = _ops.execute(_ops.prepare_allreduce(compressed, False, name, *arguments))
    return compression.decompress(reduced, context)


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start an allreduce in place; see :func:`allreduce`."""
    op = reduction(op, average)
    return start(*_ops.prepare_allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set))


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Allreduce in place and return `tensor`; see :func:`allreduce`. Not differentiable."""
    op = reduction(op, average)
    return _ops.execute(_ops.prepare_allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start an allreduce of several tensors that complete together; see :func:`grouped_allreduce`."""
    op = reduction(op, average)
    return start(
        *_ops.prepare_grouped_allreduce(tensors, False, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Reduce several tensors that complete together; differentiable. Parameters as in :func:`allreduce`."""
    op = reduction(op, average)
    pairs = [compressor_of(compression).compress(tensor) for tensor in tensors]
    compressed = [pair[0] for pair in pairs]
    arguments = (op, prescale_factor, postscale_factor, process_set, wire_format_of(compression))
    if needs_gradient(*compressed):
        reduced = GroupedAllreduce.apply(arguments, name, *compressed)
    else:
        reduced = _ops.execute(_ops.prepare_grouped_allreduce(compressed, False, name, *arguments))
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, pairs)]


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start an allreduce in place of several tensors; see :func:`grouped_allreduce`."""
    op = reduction(op, average)
    return start(
        *_ops.prepare_grouped_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[Tensor, ...]:
    """Allreduce several tensors in place and return them; see :func:`grouped_allreduce`. Not differentiable."""
    op = reduction(op, average)
    return _ops.execute(
        _ops.prepare_grouped_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set)
    )
