"""Collectives on MXNet's arrays.

What has an output of a shape that is known (allreduce, broadcast, reducescatter) goes to MXNet's engine and returns at
once: an error is raised where its output is read. Allgather and alltoall wait for their result.

Arrays are dense and in the CPU's memory, of uint8, int8, int32, int64, float16, float32, float64 or bool.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from horovod._roda import Request
from horovod.common import operations, program_end
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
from horovod.common.operations import member_names, root_of, set_id_of, tensor_name
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import (
    check_num_rank_power_of_2 as check_num_rank_power_of_2,
    get_average_backwards_compatibility_fun,
    raises,
)

NDArray = Any  # mx.nd.NDArray or mx.np.ndarray

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
_note_raises = raises("""
    mxnet.base.MXNetError
        Where the result is read, on all ranks: they disagreed (the text names them and the difference), a peer failed,
        or Horovod was shut down. This or ValueError for a wrong `op` or process set, and before :func:`init`.
    TypeError, ValueError
        For what is not a dense array of the CPU.
""")
_note_raises_at_once = raises("""
    HorovodInternalError
        On all ranks: they disagreed (the text names them and the difference), a peer failed, or Horovod was shut down.
        Also before :func:`init`.
    TypeError, ValueError
        For what is not a dense array of the CPU, and for a wrong argument or process set.
""")


def _wait_for_all() -> None:
    with contextlib.suppress(mx.base.MXNetError):  # which whoever reads the result is told
        mx.nd.waitall()


program_end.finishers.append(_wait_for_all)


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(__file__).parents[1] / "lib" / "libroda_mxnet.so"))
    library.roda_mxnet_load.restype = ctypes.c_char_p
    if problem := library.roda_mxnet_load(mx.libinfo.find_lib_path()[0].encode()).decode():
        raise ImportError(f"horovod.mxnet can't be used with MXNet {mx.__version__}: {problem}.")
    return library


MPI_LIB_CTYPES = _load_library()
_push_to_mxnet = MPI_LIB_CTYPES.roda_mxnet_push
_pointers = ctypes.POINTER(ctypes.c_void_p)
_push_to_mxnet.argtypes = [
    ctypes.c_int, _pointers, _pointers, ctypes.POINTER(ctypes.c_char_p), *[ctypes.c_int] * 4, *[ctypes.c_double] * 2,
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int,
]  # fmt: skip
_MESSAGE_BYTES = 1024
_NUMBERS = {name: number for number, name in enumerate(operations.DTYPE_NAMES)}


def _checked(tensor: NDArray) -> NDArray:
    if not isinstance(tensor, mx.nd.NDArray):
        raise TypeError(f"Expected an mxnet NDArray, got {type(tensor).__name__}: {tensor!r:.100}")
    if tensor.context.device_type not in ("cpu", "cpu_pinned", "cpu_shared"):
        raise ValueError(f"horovod.mxnet works on arrays of the CPU, and got one of {tensor.context}.")
    if tensor.stype != "default":
        raise ValueError(f"horovod.mxnet works on dense arrays, and got one with stype {tensor.stype!r}.")
    return tensor


def _checked_group(tensors: Sequence[NDArray]) -> list[NDArray]:
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise ValueError(f"A group is a list with at least one array, not {tensors!r:.60}.")
    return [_checked(tensor) for tensor in tensors]


def _empty(shape: tuple[int, ...], like: NDArray) -> NDArray:
    return (mx.np if isinstance(like, mx.np.ndarray) else mx.nd).empty(shape, dtype=like.dtype)


def _push(
    collective: int,
    inputs: Sequence[NDArray],
    outputs: Sequence[NDArray] | None,
    names: Sequence[str],
    process_set: ProcessSet,
    priority: int,
    reduce_op: int = Sum,
    root: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    wire_format: int = 0,
) -> None:
    """Hand a group to MXNet's engine; no `outputs` mean in place."""
    count = len(inputs)
    handles = ctypes.c_void_p * count
    error = ctypes.create_string_buffer(_MESSAGE_BYTES)
    failed = _push_to_mxnet(
        collective, handles(*[tensor.handle for tensor in inputs]),
        None if outputs is None else handles(*[tensor.handle for tensor in outputs]),
        (ctypes.c_char_p * count)(*[name.encode() for name in names]), count, reduce_op, root, set_id_of(process_set),
        prescale_factor, postscale_factor, wire_format, priority, error, _MESSAGE_BYTES,
    )  # fmt: skip
    if failed:
        raise mx.base.MXNetError(error.value.decode())


def _reduction(op: int | None, average: bool | None) -> int:
    op = handle_average_backwards_compatibility(op, average)
    if op == Adasum:
        raise AssertionError("horovod.mxnet does not reduce by Adasum.")
    return op


# --- allreduce ---


@_note_raises
def allreduce(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """Reduce an array over all ranks.

    Parameters
    ----------
    tensor : NDArray
        Of the same shape and dtype on all ranks; left as it is.
    average : bool, optional
        Deprecated: give `op`.
    name : str, optional
        The name by which the ranks match.
    priority : int
        MXNet starts what has a higher one first.
    prescale_factor, postscale_factor : float
        Applied before and after the reduction.
    process_set : ProcessSet
        Who takes part.
    op : Average, Sum, Min, Max or Product, optional
        By default Average.

    Returns
    -------
    NDArray
        New, with the shape and dtype of `tensor`.
    """
    factors = (prescale_factor, postscale_factor)
    names = [tensor_name("allreduce", name, process_set)]
    return _reduced([tensor], False, names, priority, *factors, process_set, _reduction(op, average))[0]


def allreduce_(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """Reduce an array over all ranks, in place; parameters as of :func:`allreduce`."""
    factors = (prescale_factor, postscale_factor)
    names = [tensor_name("allreduce", name, process_set)]
    return _reduced([tensor], True, names, priority, *factors, process_set, _reduction(op, average))[0]


def grouped_allreduce(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> list[NDArray]:
    """Reduce several arrays that complete together; parameters as of :func:`allreduce`."""
    factors = (prescale_factor, postscale_factor)
    names = member_names("grouped_allreduce", name, process_set, len(tensors))
    return _reduced(tensors, False, names, priority, *factors, process_set, _reduction(op, average))


def grouped_allreduce_(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> list[NDArray]:
    """Reduce several arrays that complete together, in place; parameters as of :func:`allreduce`."""
    factors = (prescale_factor, postscale_factor)
    names = member_names("grouped_allreduce", name, process_set, len(tensors))
    return _reduced(tensors, True, names, priority, *factors, process_set, _reduction(op, average))


def _reduced(
    tensors: Sequence[NDArray],
    in_place: bool,
    names: Sequence[str],
    priority: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    op: int,
    wire_format: int = 0,
) -> list[NDArray]:
    inputs = _checked_group(list(tensors))
    outputs = None if in_place else [_empty(tensor.shape, tensor) for tensor in inputs]
    factors = (prescale_factor, postscale_factor)
    _push(operations.ALLREDUCE, inputs, outputs, names, process_set, priority, op, 0, *factors, wire_format)
    return inputs if outputs is None else outputs


@_note_raises
def reduce(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> NDArray:
    """Reduce an array over all ranks; the root alone gets the result.

    Parameters
    ----------
    tensor : NDArray
        Of the same shape and dtype on all ranks; left as it is.
    root_rank : int
        World rank, also for a process set.
    name, op, prescale_factor, postscale_factor, process_set, priority
        As of :func:`allreduce`.

    Returns
    -------
    NDArray
        New: on the root the reduction, on the other ranks a copy of `tensor`.
    """
    result = _checked(tensor).copy()
    names, factors = [tensor_name("reduce", name, process_set)], (prescale_factor, postscale_factor)
    _push(operations.REDUCE, [result], None, names, process_set, priority, op, root_of(root_rank), *factors)
    return result


# --- broadcast ---


@_note_raises
def broadcast(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """Copy the root's array to all ranks.

    Parameters
    ----------
    tensor : NDArray
        Of the same shape and dtype on all ranks; left as it is.
    root_rank : int
        World rank of the sender.
    name, priority, process_set
        As of :func:`allreduce`.

    Returns
    -------
    NDArray
        New, with the shape and dtype of `tensor`.
    """
    return broadcast_(_checked(tensor).copy(), root_rank, name, priority, process_set)


def broadcast_(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """Copy the root's array to all ranks, in place; parameters as of :func:`broadcast`."""
    names = [tensor_name("broadcast", name, process_set)]
    _push(operations.BROADCAST, [_checked(tensor)], None, names, process_set, priority, root=root_of(root_rank))
    return tensor


# --- reducescatter ---


@_note_raises
def reducescatter(
    tensor: NDArray,
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """Reduce an array over all ranks, and keep this rank's rows of the first dimension.

    Parameters
    ----------
    tensor : NDArray
        With at least one dimension (else ValueError), of the same shape and dtype on all ranks. The first
        ``shape[0] % size`` ranks get one row more.
    op : Average or Sum
        NotImplementedError for another.
    name, priority, process_set, prescale_factor, postscale_factor
        As of :func:`allreduce`. This rank is in the process set.

    Returns
    -------
    NDArray
        This rank's rows, with the dtype of `tensor`.
    """
    names = [tensor_name("reducescatter", name, process_set)]
    return _scattered([tensor], op, names, priority, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(
    tensors: Sequence[NDArray],
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[NDArray]:
    """Do so with several arrays that complete together; parameters as of :func:`reducescatter`."""
    names = member_names("grouped_reducescatter", name, process_set, len(tensors))
    return _scattered(tensors, op, names, priority, process_set, prescale_factor, postscale_factor)


def _scattered(
    tensors: Sequence[NDArray],
    op: int,
    names: Sequence[str],
    priority: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> list[NDArray]:
    if op not in (Average, Sum):
        raise NotImplementedError("reducescatter takes op=hvd.Average or hvd.Sum.")
    inputs = _checked_group(list(tensors))
    if not all(tensor.ndim for tensor in inputs):
        raise ValueError("reducescatter does not support scalar arrays.")
    set_id_of(process_set)
    members, place = process_set.size(), process_set.rank()
    if members is None or place is None:
        raise ValueError(operations.NOT_INITIALIZED)
    outputs = []
    for tensor in inputs:
        rows = tensor.shape[0] // members + (place < tensor.shape[0] % members)
        outputs.append(_empty((rows, *tensor.shape[1:]), tensor))
    factors = (prescale_factor, postscale_factor)
    _push(operations.REDUCESCATTER, inputs, outputs, names, process_set, priority, op, 0, *factors)
    return outputs


# --- allgather and alltoall: the result's shape is the ranks' to say ---


def _request(collective: int, name: str, tensor: NDArray, process_set: ProcessSet, **more: Any) -> Request:
    tensor.wait_to_read()
    address = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(tensor.handle, ctypes.byref(address)))
    dtype = np.dtype(tensor.dtype).name
    number = _NUMBERS.get(dtype)
    if number is None:
        raise ValueError(f"Arrays of {dtype} are not supported.")
    set_id = set_id_of(process_set)
    return Request(collective, name, number, tensor.shape, address.value or 0, 0, process_set=set_id, **more)


def _adopted(output: tuple[Any, ...], like: NDArray) -> NDArray:
    """Return an output that the engine owns as an array of MXNet's."""
    result = mx.nd.from_dlpack(output[0])
    return result if result.dtype == like.dtype else result.astype(like.dtype)  # bool, which DLPack carries as bytes


@_note_raises_at_once
def allgather(
    tensor: NDArray, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> NDArray:
    """Concatenate the arrays of all ranks along the first dimension; returns when that is done.

    Parameters
    ----------
    tensor : NDArray
        With at least one dimension. The first may differ between ranks and may be zero; the others and the dtype are
        the same on all ranks.
    name, process_set
        As of :func:`allreduce`.
    priority : int
        Without effect.

    Returns
    -------
    NDArray
        The rows of rank 0, 1, …: of shape ``(sum of the ranks' rows, ...)``, with the dtype of `tensor`.
    """
    del priority
    return _gathered([_checked(tensor)], [tensor_name("allgather", name, process_set)], process_set)[0]


def grouped_allgather(
    tensors: Sequence[NDArray],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> list[NDArray]:
    """Do so with several arrays; parameters as of :func:`allgather`."""
    del priority
    arrays = _checked_group(tensors)
    return _gathered(arrays, member_names("grouped_allgather", name, process_set, len(arrays)), process_set)


def _gathered(arrays: Sequence[NDArray], names: Sequence[str], process_set: ProcessSet) -> list[NDArray]:
    requests = [_request(operations.ALLGATHER, name, array, process_set) for name, array in zip(names, arrays)]
    return operations.run(requests, len(arrays), lambda outputs: list(map(_adopted, outputs, arrays)))


class AlltoallError(mx.base.MXNetError, ValueError):
    """A wrong argument: as Horovod's an error of MXNet's, and as of our other functions a ValueError."""


@_note_raises_at_once
def alltoall(
    tensor: NDArray,
    splits: Sequence[int] | NDArray | None = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows of the first dimension to every rank; returns when that is done.

    Parameters
    ----------
    tensor : NDArray
        Its rows go to rank 0, 1, …, one after the other. The dimensions after the first and the dtype are the same on
        all ranks.
    splits : sequence of int or NDArray, optional
        How many rows go to each rank, ``size`` numbers; by default the rows are divided evenly. Rows beyond their sum
        are not sent.
    name, process_set
        As of :func:`allreduce`.
    priority : int
        Without effect.

    Returns
    -------
    NDArray or tuple
        The rows that were received, in the order of the ranks, with the dtype of `tensor`. With `splits`: the pair of
        these and an int32 array, how many rows came from each.
    """
    del priority
    _checked(tensor)
    counts = splits.asnumpy().tolist() if isinstance(splits, mx.nd.NDArray) else splits
    name = tensor_name("alltoall", name, process_set)
    try:
        given = None if counts is None else [operator.index(count) for count in counts]
        request = _request(operations.ALLTOALL, name, tensor, process_set, splits=given)
        output = operations.run([request], 1, lambda outputs: outputs[0])
    except TypeError as error:
        raise AlltoallError(f"alltoall takes splits of integers, not {splits!r:.60}.") from error
    except ValueError as error:
        raise AlltoallError(str(error)) from error
    received = _adopted(output, tensor)
    return received if given is None else (received, mx.nd.array(output[1], dtype="int32"))
