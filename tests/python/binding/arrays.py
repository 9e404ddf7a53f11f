"""NumPy arrays as a framework: all that a binding is on top of ``horovod.common``.

Arrays lie in host memory, so there are no streams. An output of known shape is an array of the caller's; one whose
shape only negotiation tells (allgather, alltoall) comes from the engine, without a copy, by DLPack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from horovod.common import life_cycle, operations
from horovod.common.basics import Sum
from horovod.common.operations import Request, set_id_of, tensor_name
from horovod.common.process_sets import ProcessSet, global_process_set

init, shutdown = life_cycle.init, life_cycle.shutdown
rank, local_rank, size = life_cycle.rank, life_cycle.local_rank, life_cycle.size
synchronize, poll = operations.synchronize, operations.poll

DTYPES = {np.dtype(name): number for number, name in enumerate(operations.DTYPE_NAMES) if name in np.sctypeDict}


class _Exported:
    """An output of the engine, as NumPy asks for it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the host


def _adopt(output: tuple[Any, Any, int], dtype: np.dtype) -> np.ndarray:
    return np.from_dlpack(_Exported(output[0])).view(dtype)  # DLPack carries Booleans as bytes


def _request(
    collective: int, name: str, array: np.ndarray, output: np.ndarray | None, process_set: ProcessSet, **fields: Any
) -> Request:
    return Request(
        collective, name, DTYPES[array.dtype], array.shape, array.ctypes.data,
        0 if output is None else output.ctypes.data, process_set=set_id_of(process_set), **fields,
    )  # fmt: skip


def allreduce_async(
    array: np.ndarray, name: str | None = None, op: int = Sum, process_set: ProcessSet = global_process_set
) -> int:
    """Start a reduction into a new array; return a handle for :func:`synchronize`."""
    source, result = np.ascontiguousarray(array), np.empty(array.shape, array.dtype)
    name = tensor_name("allreduce", name, process_set)
    request = _request(operations.ALLREDUCE, name, source, result, process_set, op=op)
    return operations.start([request], 0, lambda _, keep=source: result)


def allreduce(array: np.ndarray, name: str | None = None, **options: Any) -> np.ndarray:
    """Return the reduction of all ranks' arrays."""
    return synchronize(allreduce_async(array, name, **options))


def reducescatter(
    array: np.ndarray, name: str | None = None, op: int = Sum, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """Return this rank's rows of the reduction; the first ranks get one more where they don't divide."""
    source = np.ascontiguousarray(array)
    rows, more = divmod(len(source), process_set.size())
    result = np.empty((rows + (process_set.rank() < more), *source.shape[1:]), source.dtype)
    name = tensor_name("reducescatter", name, process_set)
    request = _request(operations.REDUCESCATTER, name, source, result, process_set, op=op)
    return operations.run([request], 0, lambda _, keep=source: result)


def broadcast(
    array: np.ndarray, root: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """Return the root's array."""
    result = np.array(array, order="C")
    name = tensor_name("broadcast", name, process_set)
    request = _request(operations.BROADCAST, name, result, result, process_set, root=root)
    return operations.run([request], 0, lambda _: result)


def allgather(array: np.ndarray, name: str | None = None, process_set: ProcessSet = global_process_set) -> np.ndarray:
    """Return every rank's rows."""
    source = np.ascontiguousarray(array)
    request = _request(operations.ALLGATHER, tensor_name("allgather", name, process_set), source, None, process_set)
    return operations.run([request], 1, lambda outputs, keep=source: _adopt(outputs[0], array.dtype))


def alltoall(
    array: np.ndarray,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[np.ndarray, list[int]]:
    """Return the rows that every rank sends here, and how many those are of each."""
    source, name = np.ascontiguousarray(array), tensor_name("alltoall", name, process_set)
    request = _request(operations.ALLTOALL, name, source, None, process_set, splits=splits)
    return operations.run([request], 1, lambda out, keep=source: (_adopt(out[0], array.dtype), out[0][1]))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait for all ranks of the set."""
    operations.barrier(process_set)
