"""Reductions of dense tensors and of ``IndexedSlices``, compressed where that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from horovod import _roda
from horovod.common.compression import wire_format_of
from horovod.common.operations import check_adasum, set_id_of
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import Adasum, Average, Sum, Tensor


def _on(device: str) -> Any:
    return tf.device(device) if device else nullcontext()


def _reduce_slices(
    slices: tf.IndexedSlices, op: int, factors: tuple[float, float], name: str | None, process_set: ProcessSet
) -> tf.IndexedSlices:
    """Gather values and indices: their sum is what they mean together."""
    if op not in (Average, Sum):
        raise NotImplementedError("The Adasum, Min, Max and Product reductions do not support tf.IndexedSlices.")
    if factors != (1.0, 1.0):
        raise NotImplementedError("prescale_factor and postscale_factor do not support tf.IndexedSlices.")
    name = None if name is None else f"{name}_slices"
    values, indices = mpi_ops.grouped_allgather([slices.values, slices.indices], name, process_set=process_set)
    if op == Average:
        values = values / tf.cast(mpi_ops.size_op(set_id_of(process_set)), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def _reduce_dense(
    tensors: list[Tensor],
    op: int,
    factors: tuple[float, float],
    compression: type[Compressor],
    name: str | None,
    process_set: ProcessSet,
    ignore_name_scope: bool,
) -> list[Tensor]:
    compressed = [compression.compress(mpi_ops.tensor_of(tensor)) for tensor in tensors]
    reduced = mpi_ops._grouped_allreduce(
        [tensor for tensor, _ in compressed], name, op, *factors, ignore_name_scope, process_set,
        wire_format_of(compression),
    )  # fmt: skip
    if op == Adasum:
        check_adasum(process_set)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, compressed)]


@mpi_ops.note_raises
def allreduce(
    tensor: Tensor | tf.IndexedSlices,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Tensor | tf.IndexedSlices:
    """Reduce a tensor over all ranks of a process set; differentiable.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable or tf.IndexedSlices
        The same shape and dtype on all ranks. Slices are gathered: only ``Average`` and ``Sum``, without factors.
    average : bool, optional
        Deprecated: True for ``op=Average``, False for ``op=Sum``.
    device_dense, device_sparse : str
        Where the op for dense tensors, or for slices, is to be placed.
    compression : Compressor
        Applied to what travels.
    op : int, optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.
    ignore_name_scope : bool
        Whether the graph's name scopes are no part of the name.

    Returns
    -------
    tf.Tensor or tf.IndexedSlices
        New, with the shape and dtype of `tensor`.
    """
    op = mpi_ops.handle_average_backwards_compatibility(op, average)
    factors = (prescale_factor, postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        with _on(device_sparse):
            return _reduce_slices(tensor, op, factors, name, process_set)
    with _on(device_dense):
        return _reduce_dense([tensor], op, factors, compression, name, process_set, ignore_name_scope)[0]


def grouped_allreduce(
    tensors: Sequence[Tensor | tf.IndexedSlices],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Sequence[Tensor | tf.IndexedSlices]:
    """Reduce tensors that travel together, whatever their dtypes; parameters as in :func:`allreduce`.

    Returns
    -------
    list
        In the order of `tensors`.
    """
    op = mpi_ops.handle_average_backwards_compatibility(op, average)
    factors = (prescale_factor, postscale_factor)
    results: list[Any] = list(tensors)
    if not results:
        return tensors
    with _on(device_sparse):
        for i, tensor in enumerate(results):
            if isinstance(tensor, tf.IndexedSlices):
                slices_name = None if name is None else f"{name}_{i}"
                results[i] = _reduce_slices(tensor, op, factors, slices_name, process_set)
    places = [i for i, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    if places:
        with _on(device_dense):
            dense = [results[i] for i in places]
            reduced = _reduce_dense(dense, op, factors, compression, name, process_set, ignore_name_scope)
        for i, tensor in zip(places, reduced):
            results[i] = tensor
    return results


@mpi_ops.note_raises
def reducescatter(
    tensor: Tensor,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Reduce a tensor over all ranks and keep this rank's rows; differentiable.

    Parameters
    ----------
    tensor : tf.Tensor
        With at least one dimension, the same shape and dtype on all ranks. The first ``shape[0] % size`` ranks get one
        row more.
    op : int
        ``Average`` or ``Sum``; NotImplementedError for another.
    device_dense, compression, name, process_set, ignore_name_scope, prescale_factor, postscale_factor
        As in :func:`allreduce`.

    Returns
    -------
    tf.Tensor
        This rank's rows, with the dtype of `tensor`.
    """
    factors = (prescale_factor, postscale_factor)
    with _on(device_dense):
        return _scatter([tensor], compression, op, name, process_set, ignore_name_scope, factors)[0]


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Sequence[Tensor]:
    """Reduce tensors that travel together, and return this rank's rows of each; see :func:`reducescatter`."""
    if not tensors:
        return tensors
    factors = (prescale_factor, postscale_factor)
    with _on(device_dense):
        return _scatter(tensors, compression, op, None, process_set, False, factors)


def _scatter(
    tensors: Sequence[Tensor],
    compression: type[Compressor],
    op: int,
    name: str | None,
    process_set: ProcessSet,
    ignore_name_scope: bool,
    factors: tuple[float, float],
) -> list[Tensor]:
    if op not in (Average, Sum):
        raise NotImplementedError("Reducescatter currently only supports Average and Sum.")
    compressed = [compression.compress(mpi_ops.tensor_of(tensor)) for tensor in tensors]
    scattered = mpi_ops._grouped_reducescatter(
        [tensor for tensor, _ in compressed], name, op, ignore_name_scope, process_set, *factors
    )
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(scattered, compressed)]


def is_member(process_set: ProcessSet) -> bool:
    """Tell whether this process takes part in what the set reduces."""
    return bool(_roda.process_set_included(set_id_of(process_set)))
