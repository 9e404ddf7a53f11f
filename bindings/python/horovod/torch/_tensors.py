"""From torch tensors to the engine's requests and back: dtypes, devices and their streams."""

from __future__ import annotations

import functools
import os
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.autograd import profiler
from torch.autograd.profiler import record_function
from torch.utils.dlpack import from_dlpack

from horovod import _roda
from horovod._roda import Request
from horovod.common import operations
from horovod.common.operations import HOST, Collect

DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for number, name in enumerate(operations.DTYPE_NAMES) if hasattr(torch, name)
}

# By the engine's numbers.
_TITLES = ("Allreduce", "Allgather", "Broadcast", "Join", "Adasum", "Alltoall", "Barrier", "Reducescatter", "Reduce")

# The engine's name for CUDA's default stream, whose handle is 0; roda.h has it from CUDA.
_DEFAULT_STREAM = 1


# --- starting ---


def start(requests: list[Request], num_outputs: int, collect: Collect, in_turn: bool = False) -> int:
    """Submit a group as :func:`horovod.common.operations.start` does; return its handle."""
    finish, mark = _finish_of(requests), marker()
    if mark is None:
        return operations.start(requests, num_outputs, collect, finish, in_turn)
    finish = functools.partial(_finish_in_range, _range_of(requests), finish or _roda.finish)
    with mark(_range_of(requests), requests[0].name):
        return operations.start(requests, num_outputs, collect, finish, in_turn)


def run(
    requests: list[Request], num_outputs: int, collect: Collect, in_turn: bool = False, limit: float | None = None
) -> Any:
    """Submit a group of requests, wait and collect; TimeoutError after `limit` seconds."""
    mark = marker()
    if mark is None:
        return operations.run(requests, num_outputs, collect, _finish_of(requests), in_turn, limit)
    with mark(_range_of(requests), requests[0].name):
        return operations.run(requests, num_outputs, collect, _finish_of(requests), in_turn, limit)


# --- ranges in torch's profilers, and in NVIDIA's ---


def marker() -> Callable[..., AbstractContextManager[Any]] | None:
    """Return what makes a range; None while no profiler runs: a range costs more than many an operation."""
    return record_function if getattr(profiler, "_is_profiler_enabled", False) else _nvtx_marker()


@functools.cache
def _nvtx_marker() -> Callable[..., AbstractContextManager[Any]] | None:
    """Return what makes ranges of NVTX, where one of its tools started this process and torch has NVTX."""
    is_off = re.match(r"\s*[-+]?0*[1-9]", os.environ.get("HOROVOD_DISABLE_NVTX_RANGES", ""))  # an integer but 0
    has_tool = bool(os.environ.get("NVTX_INJECTION64_PATH"))  # the library that a tool has NVTX load
    return torch.cuda.nvtx.range if has_tool and torch.version.cuda is not None and not is_off else None


def _range_of(requests: list[Request]) -> str:
    """Return the range's name, as Horovod names its own."""
    return f"Horovod{'Grouped' if len(requests) > 1 else ''}{_TITLES[requests[0].collective]}"


def _finish_in_range(title: str, finish: operations.Finish, *args: int, **limit: float | None) -> Any:
    mark = marker()
    if mark is None:
        return finish(*args, **limit)
    with mark(f"{title} (wait)"):
        return finish(*args, **limit)


def _finish_of(requests: list[Request]) -> operations.Finish | None:
    """Return what waits on the current stream of the device that the requests' tensors are on; None for the host."""
    device = requests[0].device
    return None if device == HOST else functools.partial(_finish_on, torch.cuda.current_stream(device))


def _finish_on(stream: torch.cuda.Stream, native: int, num_outputs: int, limit_s: float | None) -> Any:
    outputs = _roda.finish(native, num_outputs, stream.cuda_stream or _DEFAULT_STREAM, limit_s)
    current = torch.cuda.current_stream(stream.device)
    if current != stream:
        current.wait_stream(stream)
    return outputs


# --- tensors ---


def require_tensor(value: Any) -> None:
    """Raise TypeError for anything but a tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"Expected a torch.Tensor, got {type(value).__name__}: {value!r:.100}")


def check_tensor(tensor: torch.Tensor) -> int:
    """Return the engine's dtype of `tensor`; ValueError when the engine cannot work on it, TypeError for no tensor."""
    require_tensor(tensor)
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        raise ValueError(f"Tensor type {_type_name(tensor)} is not supported.")
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous. Give tensor.contiguous().")
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


# The engine's number of a tensor's device, and the stream that gives it its value.
_IN_HOST_MEMORY = (HOST, 0)


def _place(source: torch.Tensor, output: torch.Tensor | None) -> tuple[int, int]:
    """Return the engine's number of the tensors' GPU, and the stream that gives `source` its value."""
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


def adopt(output: tuple[Any, ...], like: torch.Tensor) -> torch.Tensor:
    """Return an output that the engine owns, without a copy, as a tensor with the dtype and device of `like`."""
    tensor = from_dlpack(output[0])
    if tensor.dtype != like.dtype:  # bool and float8, which DLPack carries as bytes
        tensor = tensor.view(like.dtype)
    return tensor if tensor.device == like.device else tensor.to(like.device)


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
    wire_format: int = 0,
) -> Request:
    """Return the request for one tensor, with its output where that is the caller's."""
    address = source.data_ptr()
    device, stream = _IN_HOST_MEMORY if source.is_cpu else _place(source, output)
    return Request(
        collective,
        name,
        dtype,
        source.shape,
        address,
        address if output is source else 0 if output is None else output.data_ptr(),
        op,
        root,
        set_id,
        prescale,
        postscale,
        splits,
        device,
        stream,
        wire_format,
    )
