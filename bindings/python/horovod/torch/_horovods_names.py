"""Private names of Horovod's ``mpi_ops`` that other code imports and calls. Nothing else here uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from horovod.common import operations
from horovod.common.process_sets import ProcessSet
from horovod.torch import mpi_lib_v2

_Factory = Callable[[Any], str]

_NULL = ""
_handle_map = operations._pending  # has the handles that are in flight


def _factory(operation: str) -> _Factory:
    """Return what names the extension module's function for a tensor's type, or for that of a list's first tensor."""

    def function_of(tensor: Any) -> str:
        first = tensor if isinstance(tensor, Tensor) else tensor[0]
        return f"horovod_torch_{operation}_async_{first.type().replace('.', '_')}"

    return function_of


_allreduce_function_factory = _factory("allreduce")
_grouped_allreduce_function_factory = _factory("grouped_allreduce")
_allgather_function_factory = _factory("allgather")
_grouped_allgather_function_factory = _factory("grouped_allgather")
_broadcast_function_factory = _factory("broadcast")
_alltoall_function_factory = _factory("alltoall")
_reducescatter_function_factory = _factory("reducescatter")
_grouped_reducescatter_function_factory = _factory("grouped_reducescatter")


def _check_function(function_factory: _Factory, tensor: Tensor) -> str:
    """Return the name of the function for a tensor; ValueError where there is none."""
    function = function_factory(tensor)
    if not hasattr(mpi_lib_v2, function):
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")
    return function


# The functions below return handles; ``synchronize`` returns the outputs that were given.


def _allreduce_async(
    tensor: Tensor, output: Tensor, name: str | None, op: int, prescale_factor: float, postscale_factor: float,
    process_set: ProcessSet,
) -> int:  # fmt: skip
    factors = (prescale_factor, postscale_factor)
    return mpi_lib_v2._allreduce(tensor, output, 1, name or _NULL, op, *factors, operations.set_id_of(process_set))


def _grouped_allreduce_async(
    tensors: Sequence[Tensor], outputs: Sequence[Tensor], name: str | None, op: int, prescale_factor: float,
    postscale_factor: float, process_set: ProcessSet,
) -> int:  # fmt: skip
    set_id, factors = operations.set_id_of(process_set), (prescale_factor, postscale_factor)
    return mpi_lib_v2._grouped_allreduce(tensors, outputs, 1, name or _NULL, op, *factors, set_id)


def _allgather_async(tensor: Tensor, output: Tensor, name: str | None, process_set: ProcessSet) -> int:
    return mpi_lib_v2._allgather(tensor, output, name or _NULL, operations.set_id_of(process_set))


def _grouped_allgather_async(
    tensors: Sequence[Tensor], outputs: Sequence[Tensor], name: str | None, process_set: ProcessSet
) -> int:
    return mpi_lib_v2._grouped_allgather(tensors, outputs, name or _NULL, operations.set_id_of(process_set))


def _broadcast_async(tensor: Tensor, output: Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> int:
    return mpi_lib_v2._broadcast(tensor, output, root_rank, name or _NULL, operations.set_id_of(process_set))


def _alltoall_async(
    tensor: Tensor, splits: Tensor | None, output: Tensor, output_received_splits: Tensor, name: str | None,
    process_set: ProcessSet,
) -> int:  # fmt: skip
    set_id = operations.set_id_of(process_set)
    return mpi_lib_v2._alltoall(tensor, splits, output, output_received_splits, name or _NULL, set_id)


def _reducescatter_async(
    tensor: Tensor, output: Tensor, name: str | None, op: int, process_set: ProcessSet, prescale_factor: float,
    postscale_factor: float,
) -> int:  # fmt: skip
    set_id, factors = operations.set_id_of(process_set), (prescale_factor, postscale_factor)
    return mpi_lib_v2._reducescatter(tensor, output, name or _NULL, op, set_id, *factors)


def _grouped_reducescatter_async(
    tensors: Sequence[Tensor], outputs: Sequence[Tensor], name: str | None, op: int, process_set: ProcessSet,
    prescale_factor: float, postscale_factor: float,
) -> int:  # fmt: skip
    set_id, factors = operations.set_id_of(process_set), (prescale_factor, postscale_factor)
    return mpi_lib_v2._grouped_reducescatter(tensors, outputs, name or _NULL, op, set_id, *factors)
