"""Collectives of arrays that have their values: the engine reads and writes their memory, and nothing is compiled."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax
import numpy as np

from horovod._roda import Request
from horovod.common import operations
from horovod.common.exceptions import HorovodInternalError
from horovod.common.objects import memory_of

try:
    from jax.errors import JaxRuntimeError as JaxRuntimeError
except ImportError:  # before 0.4.36
    from jaxlib.xla_extension import XlaRuntimeError as JaxRuntimeError

_ALIGNMENT = 64  # of memory that JAX takes over without a copy
_WORTH_NO_COPY = 1 << 16

_NUMBERS: dict[Any, int] = {jax.numpy.dtype(name): number for number, name in enumerate(operations.DTYPE_NAMES)}
# A dtype that the engine can't compute with travels as another of the same size.
_STAND_INS = {"uint32": "int32", "uint64": "int64", "complex64": "int64"}
_NUMBERS.update({np.dtype(name): operations.DTYPE_NAMES.index(other) for name, other in _STAND_INS.items()})
_NOT_REDUCED = {dtype for dtype in _NUMBERS if dtype.name in _STAND_INS or dtype.name.startswith("float8")}


class CollectiveError(HorovodInternalError, JaxRuntimeError):
    """A collective outside of compiled functions has failed; both bases of this error may be caught."""


def check_dtype(dtype: Any, is_reduced: bool) -> None:
    """Raise TypeError for elements that the engine can't carry, or not add up."""
    if dtype not in _NUMBERS:
        raise TypeError(f"Arrays of {dtype} are not supported by horovod.jax.")
    if is_reduced and dtype in _NOT_REDUCED:
        raise TypeError(f"Arrays of {dtype} can be gathered and broadcast, but not reduced: cast them first.")


def _empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _adopted(capsule: Any, dtype: Any) -> np.ndarray:
    """Return a copy of an output that the engine owns."""
    address, shape = memory_of(capsule)
    result = _empty(shape, dtype)
    ctypes.memmove(result.ctypes.data, address, result.nbytes)
    return result


# A small array, new for the engine to overwrite: JAX copies it in a third of the time that NumPy takes to and fro. As
# with every operation of JAX outside of compiled functions, the first call for a shape compiles it.
_copied = jax.jit(jax.numpy.copy)


@functools.lru_cache
def _is_on_cpu(sharding: Any) -> bool:
    return isinstance(sharding, jax.sharding.SingleDeviceSharding) and next(iter(sharding.device_set)).platform == "cpu"


def _copy_to_overwrite(array: Any) -> jax.Array | None:
    """Return a copy that lies where a small array on the CPU does; None for any other array."""
    if not isinstance(array, jax.Array) or not 0 < array.nbytes < _WORTH_NO_COPY or not _is_on_cpu(array.sharding):
        return None
    copy = _copied(array).block_until_ready()
    return copy if copy.sharding == array.sharding else None  # else with a default device that is not the array's


def _run_requests(requests: list[Request], num_outputs: int, collect: operations.Collect) -> list[Any]:
    try:
        return operations.run(requests, num_outputs, collect)
    except HorovodInternalError as error:
        raised = CollectiveError(str(error))
        raised.lost_rank = error.lost_rank
        raise raised from None


def run(
    arrays: tuple[Any, ...],
    collective: int,
    name: str,
    shapes: list[tuple[int, ...] | None],
    **fields: Any,
) -> list[Any]:
    """Run a group of operations of one kind.

    Parameters
    ----------
    arrays : tuple of arrays
        They lie in host memory, or are copied there.
    collective : int
        Which one.
    name : str
        What the ranks match by; members of a group add their number.
    shapes : list of tuple or None
        Of the results; None where only the ranks together know.
    **fields
        The requests' other arguments.

    Returns
    -------
    list of jax.Array
        On the devices of `arrays`.

    Raises
    ------
    CollectiveError
        When the ranks disagreed, a peer failed, or the engine was shut down.
    ValueError
        When an argument is wrong.
    """
    if len(arrays) == 1 and shapes[0] == arrays[0].shape and (copy := _copy_to_overwrite(arrays[0])) is not None:
        address = copy.unsafe_buffer_pointer()
        request = Request(collective, name, _NUMBERS[copy.dtype], copy.shape, address, address, **fields)
        return _run_requests([request], 0, lambda _: [copy])
    sources = [np.ascontiguousarray(array) for array in arrays]
    results = [None if shape is None else _empty(shape, source.dtype) for shape, source in zip(shapes, sources)]
    requests = []
    for i, (source, result) in enumerate(zip(sources, results), 1):
        member = name if len(sources) == 1 else f"{name}_{i}of{len(sources)}"
        output = 0 if result is None else result.ctypes.data
        request = Request(
            collective, member, _NUMBERS[source.dtype], source.shape, source.ctypes.data, output, **fields
        )
        requests.append(request)
    owned = sum(result is None for result in results)

    def collect(outputs: Any, _sources: list[np.ndarray] = sources) -> list[np.ndarray]:
        return [
            _adopted(outputs[i][0], sources[i].dtype) if result is None else result for i, result in enumerate(results)
        ]

    found = _run_requests(requests, len(requests) if owned else 0, collect)
    return list(map(_placed, found, arrays))


def _placed(result: np.ndarray, array: Any) -> jax.Array:
    """Return a result where `array` lies. A small one is copied, which is quicker than to say where it goes."""
    if result.nbytes < _WORTH_NO_COPY:
        found = jax.numpy.asarray(result)
        if not isinstance(array, jax.Array) or found.sharding == array.sharding:
            return found
    return jax.device_put(result, array.sharding if isinstance(array, jax.Array) else None)
