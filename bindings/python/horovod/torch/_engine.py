"""From torch tensors to the engine's requests and back: dtypes, names, handles, devices and their streams."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from horovod import _roda
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet

ALLREDUCE, ALLGATHER, BROADCAST, JOIN, ADASUM, ALLTOALL, BARRIER, REDUCESCATTER = range(8)

# In the order of the engine's numbers.
_DTYPE_NAMES = (
    "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64", "bool", "bfloat16",
)  # fmt: skip
DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for number, name in enumerate(_DTYPE_NAMES) if hasattr(torch, name)
}

_HOST = -1
_DEVICE_FIELD = 12  # of a request
# The engine's name for CUDA's default stream, whose handle is 0; roda.h has it from CUDA.
_DEFAULT_STREAM = 1

# Turns the engine's outputs into the caller's result. It also keeps the tensors alive whose memory the engine uses.
Collect = Callable[[Any], Any]


# --- handles ---

_handle_numbers = itertools.count(1)
_pending: dict[int, tuple[int, int, Collect, torch.cuda.Stream | None]] = {}


def tensor_name(operation: str, name: str | None, process_set: ProcessSet) -> str:
    """Return the name that the ranks match by."""
    return f"{operation}.{name}" if name else f"{operation}.noname.{process_set.next_unnamed()}"


def start(requests: list[tuple], num_outputs: int, collect: Collect) -> int:
    """Submit a group of requests; return a handle for :func:`synchronize`."""
    native = _roda.submit(requests)
    handle = next(_handle_numbers)
    _pending[handle] = (native, num_outputs, collect, _stream_of(requests))
    return handle


def run(requests: list[tuple], num_outputs: int, collect: Collect) -> Any:
    """Submit a group of requests, wait and collect."""
    stream = _stream_of(requests)
    if stream is None:
        return collect(_roda.run(requests, num_outputs))
    return collect(_finish(_roda.submit(requests, True), num_outputs, stream))


def _finish(native: int, num_outputs: int, stream: torch.cuda.Stream | None) -> Any:
    if stream is None:
        return _roda.finish(native, num_outputs)
    outputs = _roda.finish(native, num_outputs, stream.cuda_stream or _DEFAULT_STREAM)
    current = torch.cuda.current_stream(stream.device)
    if current != stream:
        current.wait_stream(stream)
    return outputs


def is_pending(handle: int) -> bool:
    """Tell whether :func:`synchronize` has not been called for `handle` yet."""
    return handle in _pending


def poll(handle: int) -> bool:
    """Tell whether the operation is done, so that :func:`synchronize` will not block."""
    entry = _pending.get(handle)
    if entry is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return _roda.poll(entry[0])


def synchronize(handle: int) -> Any:
    """Wait for an asynchronous operation.

    Parameters
    ----------
    handle : int
        From an ``*_async`` function.

    Returns
    -------
    torch.Tensor, tuple or None
        The operation's result; None for a handle that is unknown or was waited for before.

    Raises
    ------
    HorovodInternalError
        When the ranks disagreed, a peer failed, or the engine was shut down.
    """
    entry = _pending.pop(handle, None)
    if entry is None:
        return None
    native, num_outputs, collect, stream = entry
    return collect(_finish(native, num_outputs, stream))


def expect(handle: int) -> Any:
    """Wait like :func:`synchronize`; HorovodInternalError also for a handle that a shutdown dropped."""
    if not is_pending(handle):
        raise HorovodInternalError(
            "The operation has no result: Horovod has been shut down since it was started, or it was waited for before."
        )
    return synchronize(handle)


def forget_handles() -> None:
    """Drop all handles; only while the engine does not run. No number is given again: old ones stay unknown."""
    while _pending:
        native = _pending.popitem()[1][0]
        with contextlib.suppress(HorovodInternalError, ValueError):  # ended by the shutdown, as it must
            _roda.finish(native, 0)


# --- tensors ---


def check_tensor(tensor: torch.Tensor) -> int:
    """Return the engine's dtype of `tensor`, or raise ValueError when the engine cannot work on it."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        raise ValueError(f"Tensor type {_type_name(tensor)} is not supported.")
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")
    return dtype


def _type_name(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return f"nested {tensor.dtype}"
    try:
        return f"{tensor.type()} ({tensor.device})" if tensor.is_meta else tensor.type()
    except RuntimeError:  # the newer sparse layouts have no such name
        return f"{tensor.layout} {tensor.dtype}"


@functools.cache
def _takes(device_type: str) -> bool:
    """Tell whether the engine works on memory of such devices as it lies there."""
    return device_type == "cuda" and torch.version.hip is None and _roda.cuda_usable()


def reachable(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`, or a copy that the engine can read: it takes no memory of strangers, nor negated views."""
    if tensor.is_cpu or _takes(tensor.device.type):
        return tensor if not tensor.is_neg() else tensor.detach().resolve_neg()
    _warn_about_staging(tensor.device.type)
    return tensor.detach().cpu().resolve_neg()


def _stream_of(requests: list[tuple]) -> torch.cuda.Stream | None:
    """Return the current stream of the device that the requests' tensors are on; None for the host."""
    device = requests[0][_DEVICE_FIELD]
    return None if device == _HOST else torch.cuda.current_stream(device)


def _place(source: torch.Tensor, output: torch.Tensor | None) -> tuple[int, int]:
    """Return the engine's number of the tensors' device, and the stream that gives `source` its value."""
    if source.is_cpu:
        return _HOST, 0
    stream = torch.cuda.current_stream(source.device)
    # The engine reads and writes in the order of this stream, which may not be the one they were allocated on.
    source.record_stream(stream)
    if output is not None:
        output.record_stream(stream)
    return stream.device_index, stream.cuda_stream or _DEFAULT_STREAM


def write_back(tensor: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Copy the result of an in-place operation into the tensor that :func:`reachable` made a copy of; return that."""
    with torch.no_grad():
        return tensor.copy_(result)


_warned_devices: set[str] = set()


def _warn_about_staging(device: str) -> None:
    if device not in _warned_devices:
        _warned_devices.add(device)
        warnings.warn(
            f"Nothing in this installation works on {device} memory (roda-info says why): {device} tensors are copied "
            "to the host and back for every collective.",
            RuntimeWarning,
            stacklevel=2,
        )


def adopt(output: tuple, like: torch.Tensor) -> torch.Tensor:
    """Return an output that the engine owns, without a copy, as a tensor with the dtype and device of `like`."""
    tensor = from_dlpack(output[0])
    if like.dtype == torch.bool:
        tensor = tensor.view(torch.bool)  # DLPack carries it as bytes
    return tensor if tensor.device == like.device else tensor.to(like.device)


def set_id_of(process_set: ProcessSet) -> int:
    """Return the id of a registered set; ValueError for one that is not."""
    set_id = process_set.process_set_id
    if set_id is None:
        raise ValueError(f"Process set provided does not exist, or has not been registered: {process_set}")
    return set_id


def request(
    collective: int,
    name: str,
    dtype: int,
    source: torch.Tensor,
    output: torch.Tensor | None,
    set_id: int,
    op: int = 1,
    prescale: float = 1.0,
    postscale: float = 1.0,
    root: int = 0,
    splits: Sequence[int] | None = None,
) -> tuple:
    """Return the request tuple whose fields ``bindings/python/src/requests.h`` lists."""
    return (
        collective,
        name,
        dtype,
        source.shape,
        source.data_ptr(),
        0 if output is None else output.data_ptr(),
        op,
        root,
        set_id,
        prescale,
        postscale,
        splits,
        *_place(source, output),
    )


def bare_request(collective: int, set_id: int) -> tuple:
    """Return a request without a tensor: a barrier or a join."""
    return (collective, "", 0, (), 0, 0, 1, 0, set_id, 1.0, 1.0, None, _HOST, 0)
