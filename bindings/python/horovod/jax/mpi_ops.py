"""Collectives of ``horovod.jax``, outside and inside of compiled functions.

All take one array or a pytree of them, which travels as one group. Ranks match them by name: the one that is given,
else a number that is counted while the function is traced, so ranks have to trace the same functions in the same order.

Arrays are of uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64 or bool. Those of uint32,
uint64, complex64, float8_e4m3fn and float8_e5m2 can be moved, but not reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

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
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.life_cycle import basics as _basics
from horovod.common.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    REDUCE,
    REDUCESCATTER,
    check_adasum,
    join as join,
    root_of,
    set_id_of,
    tensor_name,
)
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set as add_process_set,
    global_process_set,
    remove_process_set as remove_process_set,
)
from horovod.common.util import get_average_backwards_compatibility_fun, raises
from horovod.jax._collectives import bind
from horovod.jax.compression import Compression, Compressor

Tree = Any  # an array, or a pytree of them

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
_note_raises = raises("""
    CollectiveError
        Outside of compiled functions, on all ranks: they disagreed (the text names them and the difference), a peer
        failed, or Horovod was shut down. It is a HorovodInternalError and a JaxRuntimeError. Also before :func:`init`.
    jax.errors.JaxRuntimeError
        From compiled functions, for whatever is wrong when they run.
    TypeError, ValueError
        For a wrong array, argument or process set. ValueError also in place of JaxRuntimeError, which some versions of
        JAX raise from a compiled function that ran before.
""")


def _run(tree: Tree, collective: int, kind: str, name: str | None, process_set: ProcessSet, **fields: Any) -> Tree:
    """Run a collective on all leaves of a tree, as one group."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    if not leaves:
        return tree
    arrays = [_array_of(leaf) for leaf in leaves]
    full_name = tensor_name(kind, name, process_set)
    return structure.unflatten(bind(arrays, collective, full_name, set_id_of(process_set), **fields))


def _array_of(value: Any) -> Any:
    """Return what JAX computes with: itself, in most cases, which is quicker than to ask JAX."""
    return value if isinstance(value, jax.Array) else jnp.asarray(value)


def _with_rows(tree: Tree) -> Tree:
    """Give numbers one row."""
    return jax.tree_util.tree_map(jnp.atleast_1d, tree)


def _check_group(tensors: Sequence[Any], function: str) -> list[Any]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{function} takes a list of arrays, not {tensors!r:.60}.")
    return list(tensors)


def _reduce(
    tree: Tree, collective: int, kind: str, name: str | None, compression: type[Compressor], process_set: ProcessSet,
    **fields: Any,
) -> Tree:  # fmt: skip
    fields["wire_format"] = wire_format_of(compression)
    if compression is Compression.none:
        return _run(tree, collective, kind, name, process_set, **fields)
    leaves, structure = jax.tree_util.tree_flatten(tree)
    compressed = [compression.compress(_array_of(leaf)) for leaf in leaves]
    group = [array for array, _ in compressed]
    reduced = _run(group[0] if len(group) == 1 else group, collective, kind, name, process_set, **fields)
    reduced = [reduced] if len(group) == 1 else reduced
    return structure.unflatten(
        [compression.decompress(array, context) for array, (_, context) in zip(reduced, compressed)]
    )


# --- reductions ---


@_note_raises
def allreduce(
    tensor: Tree,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tree:
    """Reduce an array over all ranks; differentiable.

    Parameters
    ----------
    tensor : array or pytree of arrays
        Of the same shapes and dtypes on all ranks. A tree travels as one group, in which dtypes may differ.
    average : bool, optional
        Deprecated: use `op`.
    name : str, optional
        The name by which the ranks match.
    compression : Compressor
        Applied to what travels.
    op : int, optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    array or pytree of arrays
        New, with the shapes and dtypes of `tensor`.
    """
    op = handle_average_backwards_compatibility(op, average)
    if op == Adasum:
        check_adasum(process_set)
    factors = {"prescale": prescale_factor, "postscale": postscale_factor}
    return _reduce(tensor, ALLREDUCE, "allreduce", name, compression, process_set, op=op, **factors)


@_note_raises
def reduce(
    tensor: Tree,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tree:
    """Reduce an array over all ranks; the root alone gets the result. Not differentiable.

    Parameters
    ----------
    tensor : array or pytree of arrays
        Of the same shapes and dtypes on all ranks. A tree travels as one group, in which dtypes may differ.
    root_rank : int
        World rank, also for a process set.
    name, op, prescale_factor, postscale_factor, process_set
        As in :func:`allreduce`, without ``Adasum``.

    Returns
    -------
    array or pytree of arrays
        On the root the reduction, with the shapes and dtypes of `tensor`; on the other ranks `tensor`.
    """
    factors = {"prescale": prescale_factor, "postscale": postscale_factor}
    return _run(tensor, REDUCE, "reduce", name, process_set, op=op, root=root_of(root_rank), **factors)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Reduce arrays that travel together; parameters as in :func:`allreduce`."""
    tensors = _check_group(tensors, "grouped_allreduce")
    return allreduce(tensors, average, name, compression, op, prescale_factor, postscale_factor, process_set)


@_note_raises
def reducescatter(
    tensor: Tree,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tree:
    """Reduce an array over all ranks and keep this rank's rows; differentiable.

    Parameters
    ----------
    tensor : array or pytree of arrays
        With at least one dimension each, of the same shapes and dtypes on all ranks. The first ``shape[0] % size``
        ranks get one row more.
    op : int
        ``Average`` or ``Sum``; NotImplementedError for another.
    compression, name, process_set, prescale_factor, postscale_factor
        As in :func:`allreduce`.

    Returns
    -------
    array or pytree of arrays
        This rank's rows, with the dtypes of `tensor`.
    """
    if op not in (Average, Sum):
        raise NotImplementedError("Reducescatter currently only supports Average and Sum.")
    factors = {"prescale": prescale_factor, "postscale": postscale_factor}
    for leaf in jax.tree_util.tree_leaves(tensor):
        if jnp.ndim(leaf) == 0:
            raise ValueError("reducescatter takes arrays that have rows, not numbers.")
    return _reduce(tensor, REDUCESCATTER, "reducescatter", name, compression, process_set, op=op, **factors)


def grouped_reducescatter(
    tensors: Sequence[Any],
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """Reduce and scatter arrays that travel together; parameters as in :func:`reducescatter`."""
    tensors = _check_group(tensors, "grouped_reducescatter")
    return reducescatter(tensors, compression, op, name, process_set, prescale_factor, postscale_factor)


# --- moves ---


@_note_raises
def allgather(
    tensor: Tree,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    rows: Sequence[int] | None = None,
) -> Tree:
    """Concatenate the arrays of all ranks along the first dimension; differentiable.

    Parameters
    ----------
    tensor : array or pytree of arrays
        The first dimension may differ between ranks and may be zero; the others and the dtypes are the same on all
        ranks. A number counts as one row.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.
    rows : sequence of int, optional
        How many rows each rank has, where they differ and this call is compiled or differentiated: shapes have to be
        known while tracing. By default all have as many there.

    Returns
    -------
    array or pytree of arrays
        The rows of rank 0, 1, …: of shape ``(sum of the ranks' rows, ...)``, with the dtypes of `tensor`.
    """
    tensor = _with_rows(tensor)
    count = len(jax.tree_util.tree_leaves(tensor))
    known = None if rows is None else (tuple(map(int, rows)),) * count
    return _run(tensor, ALLGATHER, "allgather", name, process_set, rows=known)


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    rows: Sequence[int] | None = None,
) -> list[Any]:
    """Gather arrays that travel together; parameters as in :func:`allgather`."""
    return allgather(_check_group(tensors, "grouped_allgather"), name, process_set, rows)


@_note_raises
def broadcast(
    tensor: Tree, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tree:
    """Return the root's array on all ranks; differentiable.

    Parameters
    ----------
    tensor : array or pytree of arrays
        Of the same shapes and dtypes on all ranks.
    root_rank : int
        World rank of the sender.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    array or pytree of arrays
        New, with the shapes and dtypes of `tensor`.
    """
    return _run(tensor, BROADCAST, "broadcast", name, process_set, root=root_of(root_rank))


@_note_raises
def alltoall(
    tensor: Any,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    received_splits: Sequence[int] | None = None,
) -> Any:
    """Send every rank some rows and receive its rows for this one; differentiable.

    Parameters
    ----------
    tensor : array
        The rows for rank 0, 1, …, one after the other. The dimensions after the first and the dtype are the same on all
        ranks.
    splits : sequence of int, optional
        How many rows go to each rank, ``size`` numbers; by default the rows are divided evenly. Rows beyond their sum
        are not sent.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.
    received_splits : sequence of int, optional
        How many rows come from each rank. Compiled functions need it beside `splits`; elsewhere the ranks ask one
        another.

    Returns
    -------
    array or tuple
        The rows that were received, in the order of the ranks, with the dtype of `tensor`. With `splits`: the pair of
        these and an int32 array, how many rows came from each.
    """
    if splits is None:
        return _run(tensor, ALLTOALL, "alltoall", name, process_set)
    sent = _numbers(splits, "splits")
    if received_splits is None:
        given = jnp.asarray(sent, jnp.int32)
        counts = _run(given, ALLTOALL, "alltoall", None if name is None else f"{name}.splits", process_set)
    else:
        counts = jnp.asarray(_numbers(received_splits, "received_splits"), jnp.int32)
    received = _numbers(counts if received_splits is None else received_splits, "received_splits")
    return _run(tensor, ALLTOALL, "alltoall", name, process_set, splits=sent, received=received), counts


def _numbers(values: Any, argument: str) -> tuple[int, ...]:
    if isinstance(values, jax.core.Tracer):
        raise ValueError(
            f"Compiled functions have to know alltoall's {argument} while they are traced: give plain numbers."
        )
    return tuple(int(value) for value in values)


def barrier(process_set: ProcessSet = global_process_set, after: Tree = None) -> Tree:
    """Wait until every member has called it.

    Parameters
    ----------
    process_set : ProcessSet
        Whose members.
    after : array or pytree of arrays, optional
        In compiled functions: what is to be computed before, and is returned to be used after it. Without it the wait
        is where the function is traced.
    """
    if not jax.tree_util.tree_leaves(after):
        operations.barrier(process_set)
        return after
    return _run(after, BARRIER, "barrier", "after", process_set)
