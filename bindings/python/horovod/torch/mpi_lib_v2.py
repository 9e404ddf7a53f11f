"""The functions of Horovod's extension module for PyTorch, for code that calls them itself.

``horovod_torch_<op>_async_torch_<Type>Tensor`` starts an operation and returns a handle; there is one for every type
that the operation works on, and none for the others, so that ``hasattr`` tells. The rest of the package does not use
these: outputs are allocated by the caller, who cannot know their size for every operation, and are resized here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from horovod.common import operations
from horovod.common.process_sets import ProcessSet, restart_numbers_after_join, set_of_id
from horovod.torch import _ops, _tensors

_REDUCED = ("Int", "Long", "Half", "Float", "Double")
_MOVED = ("Byte", "Char", "Short", *_REDUCED)


def _process_set(set_id: int) -> ProcessSet:
    process_set = set_of_id(set_id)
    if process_set is None:
        raise ValueError(f"Process set provided does not exist, or has not been registered: {set_id}")
    return process_set


def _start(prepared: _ops.Prepared, outputs: Sequence[Tensor]) -> int:
    requests, count, collect = prepared

    def into_outputs(result: Any) -> Any:
        results = collect(result)
        with torch.no_grad():
            for output, value in zip(outputs, results if isinstance(results, tuple) else (results,)):
                output.resize_(value.shape).copy_(value)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return _tensors.start(requests, count, into_outputs)


def _allreduce(
    tensor: Tensor, output: Tensor, divisor: int, name: str, op: int, prescale: float, postscale: float, set_id: int
) -> int:
    prepared = _ops.prepare_allreduce(
        tensor, False, name or None, op, prescale, postscale / divisor, _process_set(set_id)
    )
    return _start(prepared, [output])


def _grouped_allreduce(
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor],
    divisor: int,
    name: str,
    op: int,
    prescale: float,
    postscale: float,
    set_id: int,
) -> int:
    prepared = _ops.prepare_grouped_allreduce(
        tensors, False, name or None, op, prescale, postscale / divisor, _process_set(set_id)
    )
    return _start(prepared, outputs)


def _allgather(tensor: Tensor, output: Tensor, name: str, set_id: int) -> int:
    return _start(_ops.prepare_allgather(tensor, name or None, _process_set(set_id)), [output])


def _grouped_allgather(tensors: Sequence[Tensor], outputs: Sequence[Tensor], name: str, set_id: int) -> int:
    return _start(_ops.prepare_grouped_allgather(tensors, name or None, _process_set(set_id)), outputs)


def _broadcast(tensor: Tensor, output: Tensor, root: int, name: str, set_id: int) -> int:
    return _start(_ops.prepare_broadcast(tensor, False, root, name or None, _process_set(set_id)), [output])


def _alltoall(
    tensor: Tensor, splits: Tensor | None, output: Tensor, received_splits: Tensor, name: str, set_id: int
) -> int:
    given = None if splits is None or splits.numel() == 0 else splits
    prepared = _ops.prepare_alltoall(tensor, given, name or None, _process_set(set_id))
    return _start(prepared, [output, received_splits])


def _reducescatter(
    tensor: Tensor, output: Tensor, name: str, op: int, set_id: int, prescale: float, postscale: float
) -> int:
    prepared = _ops.prepare_reducescatter(tensor, name or None, op, _process_set(set_id), prescale, postscale)
    return _start(prepared, [output])


def _grouped_reducescatter(
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor],
    name: str,
    op: int,
    set_id: int,
    prescale: float,
    postscale: float,
) -> int:
    prepared = _ops.prepare_grouped_reducescatter(tensors, name or None, op, _process_set(set_id), prescale, postscale)
    return _start(prepared, outputs)


_TYPES_OF: dict[Callable[..., int], tuple[str, ...]] = {
    _allreduce: _REDUCED,
    _grouped_allreduce: _REDUCED,
    _allgather: _MOVED,
    _grouped_allgather: _MOVED,
    _broadcast: _MOVED,
    _alltoall: _MOVED,
    _reducescatter: _REDUCED,
    _grouped_reducescatter: _REDUCED,
}
for _function, _types in _TYPES_OF.items():
    for _type in _types:
        for _place in ("torch", "torch_cuda"):
            globals()[f"horovod_torch{_function.__name__}_async_{_place}_{_type}Tensor"] = _function


def horovod_torch_join(output_last_joined_rank: Tensor, device: int) -> int:
    """Start a join; `output_last_joined_rank` is an integer tensor that gets the rank that joined last."""
    del device

    def collect(outputs: Any) -> None:
        output_last_joined_rank.fill_(outputs[0][2])
        restart_numbers_after_join()

    return operations.start([operations.bare_request(operations.JOIN, 0)], 1, collect)


def horovod_torch_barrier(process_set_id: int) -> int:
    """Start a barrier."""
    set_id = operations.set_id_of(_process_set(process_set_id))
    return operations.start([operations.bare_request(operations.BARRIER, set_id)], 0, lambda _: None)


def horovod_torch_poll(handle: int) -> int:
    """Return 1 when the operation is done, else 0."""
    return int(operations.poll(handle))


def horovod_torch_wait_and_clear(handle: int) -> None:
    """Wait and forget the handle; ValueError for one that is not known."""
    if not operations.is_pending(handle):
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    operations.synchronize(handle)


def horovod_torch_reset() -> None:
    """Drop all handles; only while the engine does not run."""
    operations.forget_handles()
