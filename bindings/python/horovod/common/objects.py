"""Python objects, sent from one rank to all or gathered from all. No framework is needed: what travels are bytes."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import cloudpickle

from horovod import _roda
from horovod._roda import Request
from horovod.common.operations import (
    ALLGATHER,
    BROADCAST,
    DTYPE_NAMES,
    run,
    set_id_of,
    tensor_name,
)
from horovod.common.process_sets import ProcessSet, global_process_set

_UINT8 = DTYPE_NAMES.index("uint8")
_UNNAMED = "object"  # not the type: a rank that only receives may well give None
_SIZE = struct.Struct("=q")


class _Tensor(ctypes.Structure):
    """The head of DLPack's tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def memory_of(capsule: Any) -> tuple[int, tuple[int, ...]]:
    """Return the address and the shape of an output that the engine owns; it lives as long as the capsule."""
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    return tensor.data or 0, tuple(tensor.shape[: tensor.ndim])


def _address_of(data: bytearray) -> int:
    return ctypes.addressof((ctypes.c_uint8 * len(data)).from_buffer(data)) if data else 0


def _broadcast(data: bytearray, root_rank: int, name: str, process_set: ProcessSet) -> bytearray:
    """Overwrite `data` with the root's; as long on all ranks."""
    address = _address_of(data)
    full_name = tensor_name("broadcast", name, process_set)
    request = Request(
        BROADCAST, full_name, _UINT8, (len(data),), address, address,
        root=root_rank, process_set=set_id_of(process_set),
    )  # fmt: skip
    run([request], 0, lambda _: None)
    return data


def _allgather(data: bytearray, name: str, process_set: ProcessSet) -> bytes:
    """Return all ranks' bytes, one after the other."""

    def collect(outputs: Any, _input: bytearray = data) -> bytes:  # which lives as long as this function
        address, (length,) = memory_of(outputs[0][0])
        return ctypes.string_at(address, length) if length else b""

    full_name = tensor_name("allgather", name, process_set)
    request = Request(
        ALLGATHER, full_name, _UINT8, (len(data),), _address_of(data), 0, process_set=set_id_of(process_set)
    )
    gathered: bytes = run([request], 1, collect)
    return gathered


def _pickled(obj: Any) -> tuple[bytearray, int, Exception | None]:
    """Return the pickled object and its size, or why it cannot be pickled and a negative size: for all to know."""
    try:
        text, error = cloudpickle.dumps(obj), None
    except Exception as refused:  # noqa: BLE001 (any that the object's own class raises)
        text, error = f"{type(refused).__name__}: {refused}".encode(), refused
    return bytearray(text), -len(text) if error else len(text), error


def _not_pickled(rank: int, reason: bytes | bytearray) -> str:
    return f"The object of rank {rank} cannot be pickled: {reason.decode()}"


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Send a picklable object from the root to all ranks.

    Parameters
    ----------
    obj : object
        What the root sends; ignored elsewhere.
    root_rank : int
        World rank of the sender.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    object
        `obj` on the root, a copy of the root's elsewhere.

    Raises
    ------
    ValueError
        On all ranks, when the root's object cannot be pickled.
    """
    name = name or _UNNAMED
    is_root = _roda.rank() == root_rank
    payload, size, error = _pickled(obj) if is_root else (None, 0, None)
    (size,) = _SIZE.unpack(_broadcast(bytearray(_SIZE.pack(size)), root_rank, f"{name}.sz", process_set))
    payload = bytearray(abs(size)) if payload is None else payload
    payload = _broadcast(payload, root_rank, f"{name}.t", process_set)
    if size < 0:
        raise ValueError(_not_pickled(root_rank, payload)) from error
    return obj if is_root else cloudpickle.loads(payload)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Collect one picklable object of every rank.

    Parameters
    ----------
    obj : object
        This rank's.
    name : str, optional
        The name by which the ranks match.
    process_set : ProcessSet
        Who takes part.

    Returns
    -------
    list
        Ordered by rank.

    Raises
    ------
    ValueError
        On all ranks, when one rank's object cannot be pickled.
    """
    name = name or _UNNAMED
    payload, size, error = _pickled(obj)
    sizes = [size for (size,) in _SIZE.iter_unpack(_allgather(bytearray(_SIZE.pack(size)), f"{name}.sz", process_set))]
    gathered = _allgather(payload, f"{name}.t", process_set)
    parts, begin = [], 0
    for size in sizes:
        parts.append(gathered[begin : begin + abs(size)])
        begin += abs(size)
    ranks = process_set.ranks or range(len(parts))
    for owner, size, part in zip(ranks, sizes, parts):
        if size < 0:
            raise ValueError(_not_pickled(owner, part)) from error
    return [cloudpickle.loads(part) for part in parts]
