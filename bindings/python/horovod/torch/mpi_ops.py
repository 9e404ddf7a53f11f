"""Collectives of ``horovod.torch``: synchronous, asynchronous, in place and grouped.

Asynchronous functions return a handle for :func:`synchronize` and :func:`poll`. Until it is done, the tensors that
were passed must not be changed. Ranks match operations by name; operations without a name must be called in the same
order by all ranks of the process set.

Tensors are dense and contiguous, of uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64,
bool, float8_e4m3fn or float8_e5m2, on the host or a GPU; those of other devices are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import torch
from torch import Tensor

from horovod.common import operations
from horovod.common.basics import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
)
from horovod.common.compression import wire_format_of
from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.life_cycle import basics as _basics
from horovod.common.operations import expect as expect, poll as poll, synchronize as synchronize
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set as add_process_set,
    global_process_set,
    remove_process_set as remove_process_set,
)
from horovod.common.util import (
    check_installed_version as check_installed_version,
    check_num_rank_power_of_2 as check_num_rank_power_of_2,
    get_average_backwards_compatibility_fun as get_average_backwards_compatibility_fun,
    gpu_available as gpu_available,
    interface,
    num_rank_is_power_2 as num_rank_is_power_2,
)
from horovod.torch import _ops, _reduce, mpi_lib_v2
from horovod.torch._allreduce import (
    allreduce as allreduce,
    allreduce_ as allreduce_,
    allreduce_async as allreduce_async,
    allreduce_async_ as allreduce_async_,
    grouped_allreduce as grouped_allreduce,
    grouped_allreduce_ as grouped_allreduce_,
    grouped_allreduce_async as grouped_allreduce_async,
    grouped_allreduce_async_ as grouped_allreduce_async_,
    handle_average_backwards_compatibility as handle_average_backwards_compatibility,
)
from horovod.torch._autograd import (
    GroupedReducescatter,
    HorovodAllgather,
    HorovodAllreduce as HorovodAllreduce,
    HorovodAlltoall,
    HorovodBroadcast,
    HorovodGroupedAllgather,
    HorovodGroupedAllreduce as HorovodGroupedAllreduce,
    HorovodGroupedReducescatter as HorovodGroupedReducescatter,
    HorovodReducescatter,
    needs_gradient,
)
from horovod.torch._horovods_names import (
    _NULL as _NULL,
    _allgather_async as _allgather_async,
    _allgather_function_factory as _allgather_function_factory,
    _allreduce_async as _allreduce_async,
    _allreduce_function_factory as _allreduce_function_factory,
    _alltoall_async as _alltoall_async,
    _alltoall_function_factory as _alltoall_function_factory,
    _broadcast_async as _broadcast_async,
    _broadcast_function_factory as _broadcast_function_factory,
    _check_function as _check_function,
    _grouped_allgather_async as _grouped_allgather_async,
    _grouped_allgather_function_factory as _grouped_allgather_function_factory,
    _grouped_allreduce_async as _grouped_allreduce_async,
    _grouped_allreduce_function_factory as _grouped_allreduce_function_factory,
    _grouped_reducescatter_async as _grouped_reducescatter_async,
    _grouped_reducescatter_function_factory as _grouped_reducescatter_function_factory,
    _handle_map as _handle_map,
    _reducescatter_async as _reducescatter_async,
    _reducescatter_function_factory as _reducescatter_function_factory,
)
from horovod.torch._reduce import (
    reduce as reduce,
    reduce_ as reduce_,
    reduce_async as reduce_async,
    reduce_async_ as reduce_async_,
)
from horovod.torch._tensors import start
from horovod.torch.compression import Compression, Compressor, compressor_of

mpi_lib = mpi_lib_v2  # Horovod's name for its extension


def sparse_allreduce_async(
    tensor: Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], Tensor]:
    """Start the reduction of a sparse tensor by gathering every rank's indices and values.

    Parameters
    ----------
    tensor : torch.Tensor
        Sparse COO.
    name : str
        The gathers are named ``<name>.indices`` and ``<name>.values``.
    op : int
        ``Average`` or ``Sum``.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    callable
        Call it to wait for the result, a sparse tensor whose repeated indices add up.

    Raises
    ------
    NotImplementedError
        For another `op`.
    """
    if op not in (Average, Sum):
        raise NotImplementedError("Sparse tensors can only be reduced with Average or Sum.")
    tensor = tensor if tensor.is_sparse else tensor.to_sparse()
    indices = allgather_async(tensor._indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values().contiguous(), f"{name}.values", process_set)

    def wait() -> Tensor:
        all_indices, all_values = expect(indices), expect(values)
        if op == Average:
            all_values = all_values / process_set.size()
        all_values = all_values.to(tensor.dtype)
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size(), check_invariants=False)

    return wait


# --- allgather ---


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Start an allgather; see :func:`allgather`."""
    return start(*_ops.prepare_allgather(tensor, name, process_set))


@_ops.note_raises
def allgather(
    tensor: Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    compression: type[Compressor] = Compression.none,
) -> Tensor:
    """Concatenate every rank's tensor along the first dimension, in rank order; differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, with at least one dimension. The first may differ between ranks and may be zero; the others and the
        dtype are the same on all ranks.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.
    compression : Compressor
        Applied to what travels. With a wire format all ranks get the same bits: what the messages hold, the own rows
        among them.

    Returns
    -------
    torch.Tensor
        Of shape ``(sum of the ranks' rows, ...)``, with the dtype and device of `tensor`.
    """
    compressed, context = compressor_of(compression).compress(tensor)
    arguments = (name, process_set, wire_format_of(compression))
    if needs_gradient(compressed):
        gathered = HorovodAllgather.apply(compressed, *arguments)
    else:
        gathered = _ops.execute(_ops.prepare_allgather(compressed, *arguments))
    return compression.decompress(gathered, context)


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start an allgather of several tensors that complete together."""
    return start(*_ops.prepare_grouped_allgather(tensors, name, process_set))


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[Tensor, ...]:
    """Allgather several tensors that complete together; differentiable. Parameters as in :func:`allgather`."""
    tensors = list(tensors)
    if needs_gradient(*tensors):
        return HorovodGroupedAllgather.apply(name, process_set, *tensors)
    return _ops.execute(_ops.prepare_grouped_allgather(tensors, name, process_set))


# --- broadcast ---


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start a broadcast into a new tensor; see :func:`broadcast`."""
    return start(*_ops.prepare_broadcast(tensor, False, root_rank, name, process_set))


@_ops.note_raises
def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Return the root's tensor on every rank; differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, the same shape and dtype on all ranks.
    root_rank : int
        World rank, also for a process set.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    torch.Tensor
        New, with the shape, dtype and device of `tensor`.
    """
    if needs_gradient(tensor):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return _ops.execute(_ops.prepare_broadcast(tensor, False, root_rank, name, process_set))


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start a broadcast in place; see :func:`broadcast`."""
    return start(*_ops.prepare_broadcast(tensor, True, root_rank, name, process_set))


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Broadcast in place and return `tensor`; see :func:`broadcast`. Not differentiable."""
    return _ops.execute(_ops.prepare_broadcast(tensor, True, root_rank, name, process_set))


# --- alltoall ---


def alltoall_async(
    tensor: Tensor,
    splits: Sequence[int] | Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start an alltoall; :func:`synchronize` returns the pair (output, received splits). See :func:`alltoall`."""
    return start(*_ops.prepare_alltoall(tensor, splits, name, process_set))


@overload
def alltoall(
    tensor: Tensor, splits: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor: ...
@overload
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Tensor, Tensor]: ...
@_ops.note_raises
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor | tuple[Tensor, Tensor]:
    """Send slices of the first dimension to every rank and concatenate what comes in; differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, with at least one dimension; the same dtype and the same dimensions after the first on all ranks.
    splits : sequence of int or int32 tensor, optional
        Rows for each rank, ``size`` numbers; without it, or with an empty one, the rows are divided evenly. Rows beyond
        their sum are not sent.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    torch.Tensor or tuple
        The output; with `splits` the pair (output, received splits), the latter int32 on the device of `splits`.
    """
    if needs_gradient(tensor):
        result = HorovodAlltoall.apply(tensor, splits, name, process_set)
    else:
        result = _ops.execute(_ops.prepare_alltoall(tensor, splits, name, process_set))
    return result[0] if splits is None else tuple(result)


# --- reducescatter ---


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start a reducescatter; see :func:`reducescatter`."""
    return start(*_ops.prepare_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor))


@_ops.note_raises
def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Reduce a tensor and keep this rank's share of the first dimension; differentiable.

    Parameters
    ----------
    tensor : torch.Tensor
        Contiguous, with at least one dimension, the same shape and dtype on all ranks. The first ``shape[0] % size``
        ranks get one row more.
    name : str, optional
        The name by which the ranks match.
    compression : Compressor
        Applied to what travels, wire formats among them: see :func:`allreduce`.
    op : int
        ``Average`` or ``Sum``.
    process_set : ProcessSet
        Who takes part.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.

    Returns
    -------
    torch.Tensor
        This rank's rows, with the dtype and device of `tensor`.
    """
    compressed, context = compressor_of(compression).compress(tensor)
    arguments = (op, process_set, prescale_factor, postscale_factor, wire_format_of(compression))
    if needs_gradient(compressed):
        reduced = HorovodReducescatter.apply(compressed, name, *arguments)
    else:
        reduced = _ops.execute(_ops.prepare_reducescatter(compressed, name, *arguments))
    return compression.decompress(reduced, context)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start a reducescatter of several tensors that complete together."""
    return start(*_ops.prepare_grouped_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor))


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """Reducescatter several tensors that complete together; differentiable. Parameters as in :func:`reducescatter`."""
    pairs = [compressor_of(compression).compress(tensor) for tensor in tensors]
    compressed = [pair[0] for pair in pairs]
    arguments = (op, process_set, prescale_factor, postscale_factor, wire_format_of(compression))
    if needs_gradient(*compressed):
        reduced = GroupedReducescatter.apply(arguments, name, *compressed)
    else:
        reduced = _ops.execute(_ops.prepare_grouped_reducescatter(compressed, name, *arguments))
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, pairs)]


# --- without tensors ---


def join(device: int = -1) -> int:
    """Say that this rank has no more data, and wait until all ranks said so.

    Meanwhile this rank contributes zeros to the allreduces of the others.

    Parameters
    ----------
    device : int
        Where Horovod would allocate the zeros; the engine supplies them without.

    Returns
    -------
    int
        The rank that joined last, the same on all ranks.
    """
    del device
    return operations.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set called it."""
    operations.barrier(process_set)


if hasattr(torch.serialization, "add_safe_globals"):  # since torch 2.4, for `weights_only`
    torch.serialization.add_safe_globals([int])  # as which a reduce op is saved

__all__ = interface(globals(), *_reduce.__all__)[0]
