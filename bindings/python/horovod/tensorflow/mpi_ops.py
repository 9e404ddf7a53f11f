"""Collectives of ``horovod.tensorflow`` as TensorFlow's ops, eager and in graphs, with their gradients.

The ops are one library for every TensorFlow from 2.13 on. In graphs ranks match tensors by the op's name there; eager,
by the name that is given, else by the order of the calls.

Tensors are dense, of uint8, int8, uint16, int16, int32, int64, half, bfloat16, float, double or bool.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from horovod import _roda
from horovod.common.basics import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
)
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.life_cycle import basics as _basics
from horovod.common.operations import root_of, set_id_of
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set as add_process_set,
    global_process_set,
    remove_process_set as remove_process_set,
)
from horovod.common.util import (
    check_num_rank_power_of_2 as check_num_rank_power_of_2,
    get_average_backwards_compatibility_fun,
    gpu_available as gpu_available,
    raises,
)
from horovod.tensorflow.util import _executing_eagerly, refuse_xla

Tensor = Any  # of TensorFlow, which has no type that both of its modes share

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
note_raises = raises("""
    tf.errors.FailedPreconditionError
        On all ranks: they disagreed (the text names them and the difference). Also before :func:`init`.
    tf.errors.AbortedError
        A peer failed, or Horovod was shut down.
    tf.errors.InvalidArgumentError, ValueError, TypeError
        For a wrong tensor, argument or process set. In graphs errors of TensorFlow come when the op runs.
""")


def _load_library() -> Any:
    path = Path(__file__).parents[1] / "lib" / "libroda_tensorflow.so"
    library = tf.load_op_library(str(path))
    problem = ctypes.CDLL(str(path)).roda_tensorflow_problem
    problem.restype = ctypes.c_char_p
    if text := problem().decode():
        raise ImportError(f"horovod.tensorflow can't be used with TensorFlow {tf.__version__}: {text}.")
    return library


MPI_LIB = _load_library()


# --- names ---


def _normalize_name(name: str) -> str:
    """Return `name` with what a node's name can't have replaced."""
    return re.sub("[^a-zA-Z0-9_]", "_", name)


def _naming(name: str | None, operation: str, tensors: Sequence[Tensor], ignore_name_scope: bool) -> dict[str, Any]:
    """Return the arguments that name an op."""
    if _executing_eagerly():  # where all nodes have the name of their kind
        return {"tensor_name": name or ""}
    refuse_xla()
    if name is None:
        ends = [tensors[0]] if len(tensors) == 1 else [tensors[0], tensors[-1]]
        grouped = "Grouped" if len(tensors) > 1 else ""
        names = "_".join(_normalize_name(tensor.name) for tensor in ends)
        name = f"Horovod{grouped}{operation}_{names}"
    return {"name": name, "ignore_name_scope": ignore_name_scope}


def _of_set(process_set: ProcessSet) -> dict[str, int]:
    return {"process_set_id": set_id_of(process_set)}


def tensor_of(value: Any) -> Tensor:
    """Return what ops take: itself, in most cases, which is quicker than to ask TensorFlow."""
    return value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)


def _check_group(tensors: Sequence[Tensor], function: str) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{function} takes a list of tensors, not {tensors!r:.60}.")
    return [tensor_of(tensor) for tensor in tensors]


# --- allreduce ---


def _allreduce(
    tensor: Tensor,
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce a dense tensor; see :func:`horovod.tensorflow.allreduce`."""
    factors = (prescale_factor, postscale_factor)
    return _grouped_allreduce([tensor], name, op, *factors, ignore_name_scope, process_set)[0]


def _grouped_allreduce(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    wire_format: int = 0,
) -> list[Tensor]:
    """Reduce dense tensors, of the same dtype or not, as one group."""
    tensors = _check_group(tensors, "grouped_allreduce")
    if not tensors:
        return tensors
    return MPI_LIB.horovod_allreduce(
        tensors=tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        wire_format=wire_format,
        **_of_set(process_set),
        **_naming(name, "Allreduce", tensors, ignore_name_scope),
    )


def _attributes(op: Any, *names: str) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in (*names, "process_set_id", "ignore_name_scope")}


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_grad(op: Any, *gradients: Tensor) -> Sequence[Tensor]:
    """Reduce the gradients as the tensors were."""
    attributes = _attributes(op, "reduce_op", "prescale_factor", "postscale_factor", "wire_format")
    return MPI_LIB.horovod_allreduce(tensors=list(gradients), **attributes)


def _reduced(gradients: Sequence[Tensor], op: Any) -> list[Tensor]:
    """Return the averages of gradients over the ranks of an op's process set."""
    return MPI_LIB.horovod_allreduce(tensors=list(gradients), reduce_op=Average, **_attributes(op))


# --- reduce ---


@note_raises
def reduce(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Tensor:
    """Reduce a tensor over all ranks of a process set; the root alone gets the result. Not differentiable.

    Parameters
    ----------
    tensor : tf.Tensor
        The same shape and dtype on all ranks.
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
    ignore_name_scope : bool
        Whether the graph's name scopes are no part of the name.

    Returns
    -------
    tf.Tensor
        On the root the reduction, on the other ranks a tensor like `tensor`. In a graph all ranks have to use theirs:
        TensorFlow leaves out ops whose results have no use.
    """
    tensors = _check_group([tensor], "reduce")
    return MPI_LIB.horovod_reduce(
        tensors=tensors,
        root_rank=root_of(root_rank),
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        **_of_set(process_set),
        **_naming(name, "Reduce", tensors, ignore_name_scope),
    )[0]


tf.no_gradient("HorovodReduce")


# --- allgather ---


@note_raises
def allgather(
    tensor: Tensor,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Concatenate the tensors of all ranks along the first dimension; differentiable.

    Parameters
    ----------
    tensor : tf.Tensor
        With at least one dimension. The first may differ between ranks and may be zero; the others and the dtype are
        the same on all ranks.
    name : str, optional
        The name by which the ranks match.
    ignore_name_scope : bool
        Whether the graph's name scopes are no part of the name.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    tf.Tensor
        The rows of rank 0, 1, …: of shape ``(sum of the ranks' rows, ...)``, with the dtype of `tensor`.
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Gather tensors as one group; parameters as in :func:`allgather`."""
    tensors = _check_group(tensors, "grouped_allgather")
    if not tensors:
        return tensors
    return MPI_LIB.horovod_allgather(
        tensors=tensors, **_of_set(process_set), **_naming(name, "Allgather", tensors, ignore_name_scope)
    )


@tf.RegisterGradient("HorovodAllgather")
def _allgather_grad(op: Any, *gradients: Tensor) -> list[Tensor]:
    """Average the gradients, and take the rows that this rank gave."""
    averages = _reduced(gradients, op)
    rows = [tf.reshape(tf.shape(tensor)[:1] if tensor.shape.rank != 0 else 1, [1]) for tensor in op.inputs]
    place = _roda.process_set_rank(op.get_attr("process_set_id"))
    gathered = MPI_LIB.horovod_allgather(tensors=rows, **_attributes(op))
    result = []
    for tensor, average, counts in zip(op.inputs, averages, gathered):
        begin = tf.reduce_sum(counts[:place])
        part = average[begin : begin + counts[place]]
        result.append(tf.reshape(part, tf.shape(tensor)))
    return result


# --- broadcast ---


@note_raises
def broadcast(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Return the root's tensor on all ranks; differentiable.

    Parameters
    ----------
    tensor : tf.Tensor
        The same shape and dtype on all ranks.
    root_rank : int
        World rank of the sender.
    name : str, optional
        The name by which the ranks match.
    ignore_name_scope : bool
        Whether the graph's name scopes are no part of the name.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    tf.Tensor
        New, with the shape and dtype of `tensor`.
    """
    return grouped_broadcast([tensor], root_rank, name, ignore_name_scope, process_set)[0]


def grouped_broadcast(
    tensors: Sequence[Tensor],
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Broadcast tensors as one group; parameters as in :func:`broadcast`. Horovod does not have it."""
    tensors = _check_group(tensors, "grouped_broadcast")
    if not tensors:
        return tensors
    return MPI_LIB.horovod_broadcast(
        tensors=tensors,
        root_rank=root_of(root_rank),
        **_of_set(process_set),
        **_naming(name, "Broadcast", tensors, ignore_name_scope),
    )


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_grad(op: Any, *gradients: Tensor) -> list[Tensor]:
    """Average the gradients for the root; the others' tensors had no effect."""
    averages = _reduced(gradients, op)
    is_root = _basics.rank() == op.get_attr("root_rank")
    return averages if is_root else [average * 0 for average in averages]


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Overwrite variables with the root's; return them, or in graphs their new values.

    Raises what :func:`broadcast` raises.
    """
    variables = list(variables)
    values = grouped_broadcast([variable.value() for variable in variables], root_rank, name, False, process_set)
    return [variable.assign(value) for variable, value in zip(variables, values)]


# --- alltoall ---


@note_raises
def alltoall(
    tensor: Tensor,
    splits: Tensor | None = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor | tuple[Tensor, Tensor]:
    """Send every rank some rows and receive its rows for this one; differentiable.

    Parameters
    ----------
    tensor : tf.Tensor
        The rows for rank 0, 1, …, one after the other. The dimensions after the first and the dtype are the same on all
        ranks.
    splits : int32 tensor or list, optional
        How many rows go to each rank, ``size`` numbers; by default the rows are divided evenly. Rows beyond their sum
        are not sent.
    name : str, optional
        The name by which the ranks match.
    ignore_name_scope : bool
        Whether the graph's name scopes are no part of the name.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    tf.Tensor or tuple
        The rows that were received, in the order of the ranks, with the dtype of `tensor`. With `splits`: the pair of
        these and an int32 tensor, how many rows came from each.
    """
    tensor = tensor_of(tensor)
    given = tf.convert_to_tensor([] if splits is None else splits, dtype=tf.int32)
    output, received = MPI_LIB.horovod_alltoall(
        tensor=tensor,
        splits=given,
        **_of_set(process_set),
        **_naming(name, "Alltoall", [tensor], ignore_name_scope),
    )
    return output if splits is None else (output, received)


@tf.RegisterGradient("HorovodAlltoall")
def _alltoall_grad(op: Any, gradient: Tensor, _: Tensor) -> list[Tensor | None]:
    """Send the gradient's rows back."""
    returned, _ = MPI_LIB.horovod_alltoall(tensor=gradient, splits=op.outputs[1], **_attributes(op))
    return [returned, None]


# --- reducescatter ---


def _reducescatter(
    tensor: Tensor,
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Reduce, and keep this rank's rows; see :func:`horovod.tensorflow.reducescatter`."""
    factors = (prescale_factor, postscale_factor)
    return _grouped_reducescatter([tensor], name, op, ignore_name_scope, process_set, *factors)[0]


def _grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """Reduce tensors as one group, and keep this rank's rows of each."""
    tensors = _check_group(tensors, "grouped_reducescatter")
    if not tensors:
        return tensors
    return MPI_LIB.horovod_reducescatter(
        tensors=tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        **_of_set(process_set),
        **_naming(name, "Reducescatter", tensors, ignore_name_scope),
    )


@tf.RegisterGradient("HorovodReducescatter")
def _reducescatter_grad(op: Any, *gradients: Tensor) -> list[Tensor]:
    """Gather the gradients of all rows."""
    factor = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if op.get_attr("reduce_op") == Sum:
        factor *= _roda.process_set_size(op.get_attr("process_set_id"))
    scaled = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
    return MPI_LIB.horovod_allgather(tensors=scaled, **_attributes(op))


# --- without tensors ---


def join() -> Tensor:
    """Return an op that says that this rank has no more data, waits for the others and gives who joined last."""
    return MPI_LIB.horovod_join()


def size_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return an op that gives the number of processes of a set when it runs."""
    return MPI_LIB.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return an op that gives 1 where this process belongs to a set when it runs, else 0."""
    return MPI_LIB.horovod_process_set_included(process_set_id=process_set_id, name=name)


def local_size_op(name: str | None = None) -> Tensor:
    """Return an op that gives the number of processes of this host when it runs."""
    return MPI_LIB.horovod_local_size(name=name)


def rank_op(name: str | None = None) -> Tensor:
    """Return an op that gives this process's rank when it runs."""
    return MPI_LIB.horovod_rank(name=name)


def local_rank_op(name: str | None = None) -> Tensor:
    """Return an op that gives this process's rank on its host when it runs."""
    return MPI_LIB.horovod_local_rank(name=name)


for _op in ("Size", "ProcessSetIncluded", "LocalSize", "Rank", "LocalRank", "Join"):
    tf.no_gradient(f"Horovod{_op}")
