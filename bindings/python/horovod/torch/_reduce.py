"""Reduce to a root, which Horovod does not have: names and parameters as its neighbours in ``mpi_ops`` have them."""

from __future__ import annotations

from torch import Tensor

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _ops
from horovod.torch._tensors import start

__all__ = ["reduce", "reduce_", "reduce_async", "reduce_async_"]


def reduce_async(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start a reduce into a new tensor on the root; see :func:`reduce`."""
    factors = (prescale_factor, postscale_factor)
    return start(*_ops.prepare_reduce(tensor, False, root_rank, name, op, *factors, process_set))


@_ops.note_raises
def reduce(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor | None:
    """Reduce a tensor over all ranks of a process set; the root alone gets the result. Not differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, the same shape and dtype on all ranks. It is not changed.
    root_rank : int
        World rank, also for a process set.
    name : str, optional
        The name by which the ranks match.
    op : int
        ``Average``, ``Sum``, ``Min``, ``Max`` or ``Product``.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    torch.Tensor or None
        The reduction on the root, None on the other ranks.
    """
    factors = (prescale_factor, postscale_factor)
    return _ops.execute(_ops.prepare_reduce(tensor, False, root_rank, name, op, *factors, process_set))


def reduce_async_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start a reduce into the root's tensor; see :func:`reduce_`."""
    factors = (prescale_factor, postscale_factor)
    return start(*_ops.prepare_reduce(tensor, True, root_rank, name, op, *factors, process_set))


def reduce_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce into the root's tensor and return `tensor`; the other ranks' stay as they are. See :func:`reduce`."""
    factors = (prescale_factor, postscale_factor)
    return _ops.execute(_ops.prepare_reduce(tensor, True, root_rank, name, op, *factors, process_set))
