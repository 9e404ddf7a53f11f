"""Collectives on torch tensors without autograd and compression.

Every ``prepare_*`` function checks its arguments and returns ``(requests, num_outputs, collect)``, which
:func:`horovod.torch._tensors.start` submits and :func:`execute` runs to the end in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from horovod import _roda
from horovod._roda import Request
from horovod.common import operations
from horovod.common.basics import Adasum
from horovod.common.operations import Collect, check_adasum, member_names, root_of, set_id_of, tensor_name
from horovod.common.process_sets import ProcessSet
from horovod.common.util import raises
from horovod.torch import _tensors
from horovod.torch._tensors import adopt, check_tensor, reachable, request, require_tensor, write_back

Prepared = tuple[list[Request], int, Collect]

note_raises = raises("""
    ValueError
        For a tensor, argument or process set that this rank can tell is wrong, or before :func:`init`.
    HorovodInternalError
        On all ranks: they disagreed (the text names them and the difference), a peer failed, or Horovod was shut down.
""")


def execute(prepared: Prepared) -> Any:
    """Submit, wait and collect."""
    return _tensors.run(*prepared)


def _result(tensor: torch.Tensor, source: torch.Tensor, result: torch.Tensor, in_place: bool) -> Collect:
    """Return what hands out `result`: the caller's tensor where it was asked for, on the caller's device."""

    def hand_out(_: Any) -> Any:
        if source is tensor:  # which is kept alive until here
            return result
        return write_back(tensor, result) if in_place else result.to(tensor.device)

    return hand_out


# --- allreduce ---


def prepare_allreduce(
    tensor: torch.Tensor,
    in_place: bool,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    wire_format: int = 0,
) -> Prepared:
    """Allreduce of one tensor."""
    dtype = check_tensor(tensor)
    set_id = set_id_of(process_set)
    if op == Adasum:
        check_adasum(process_set)
    source = reachable(tensor)
    result = source if in_place else torch.empty_like(source)
    name = tensor_name("allreduce", name, process_set)
    prescale, postscale = float(prescale_factor), float(postscale_factor)
    entry = request(
        operations.ALLREDUCE, name, dtype, source, result, set_id, op, prescale, postscale, 0, None, wire_format
    )
    return [entry], 0, _result(tensor, source, result, in_place)


def prepare_grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    in_place: bool,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    wire_format: int = 0,
) -> Prepared:
    """Allreduce of several tensors that complete together."""
    tensors = _checked_group(tensors)
    set_id = set_id_of(process_set)
    if op == Adasum:
        check_adasum(process_set)
    sources = [reachable(tensor) for tensor in tensors]
    results = sources if in_place else [torch.empty_like(source) for source in sources]
    names = member_names("grouped_allreduce", name, process_set, len(tensors))
    arguments = (set_id, op, float(prescale_factor), float(postscale_factor), 0, None, wire_format)
    requests = [
        request(operations.ALLREDUCE, member, check_tensor(tensor), source, result, *arguments)
        for member, tensor, source, result in zip(names, tensors, sources, results)
    ]

    def collect(_: Any, keep: Any = sources) -> tuple[torch.Tensor, ...]:
        if in_place:
            for tensor, result in zip(tensors, results):
                if tensor is not result:
                    write_back(tensor, result)
            return tuple(tensors)
        return tuple(result.to(tensor.device) for tensor, result in zip(tensors, results))

    return requests, 0, collect


def _checked_group(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    tensors = list(tensors)
    if not tensors:
        raise ValueError("A grouped operation needs at least one tensor.")
    for tensor in tensors:
        require_tensor(tensor)
    if len({tensor.device for tensor in tensors}) > 1:
        raise ValueError("Tensors in list must be on same device.")
    return tensors


# --- allgather ---


def prepare_allgather(
    tensor: torch.Tensor, name: str | None, process_set: ProcessSet, wire_format: int = 0
) -> Prepared:
    """Concatenation of every rank's tensor along the first dimension."""
    dtype = check_tensor(tensor)
    set_id = set_id_of(process_set)
    source = reachable(tensor)
    name = tensor_name("allgather", name, process_set)
    entry = request(operations.ALLGATHER, name, dtype, source, None, set_id, wire_format=wire_format)
    return [entry], 1, lambda outputs, keep=source: adopt(outputs[0], tensor)


def prepare_grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None, process_set: ProcessSet, wire_format: int = 0
) -> Prepared:
    """Allgather of several tensors that complete together."""
    tensors = _checked_group(tensors)
    set_id = set_id_of(process_set)
    sources = [reachable(tensor) for tensor in tensors]
    names = member_names("grouped_allgather", name, process_set, len(tensors))
    requests = [
        request(operations.ALLGATHER, member, check_tensor(tensor), source, None, set_id, wire_format=wire_format)
        for member, tensor, source in zip(names, tensors, sources)
    ]
    return requests, len(tensors), lambda outputs, keep=sources: tuple(map(adopt, outputs, tensors))


# --- broadcast ---


def prepare_broadcast(
    tensor: torch.Tensor, in_place: bool, root_rank: int, name: str | None, process_set: ProcessSet
) -> Prepared:
    """The root's tensor, everywhere."""
    dtype = check_tensor(tensor)
    set_id = set_id_of(process_set)
    source = reachable(tensor)
    result = source if in_place else torch.empty_like(source)
    name = tensor_name("broadcast", name, process_set)
    entry = request(operations.BROADCAST, name, dtype, source, result, set_id, root=root_of(root_rank))
    return [entry], 0, _result(tensor, source, result, in_place)


# --- reduce ---


def prepare_reduce(
    tensor: torch.Tensor,
    in_place: bool,
    root_rank: int,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> Prepared:
    """Reduction of every rank's tensor, on the root; elsewhere None, or in place the tensor as it was."""
    dtype = check_tensor(tensor)
    set_id = set_id_of(process_set)
    source = reachable(tensor)
    name = tensor_name("reduce", name, process_set)
    root = root_of(root_rank)
    result = None if root != _roda.rank() else source if in_place else torch.empty_like(source)
    prescale, postscale = float(prescale_factor), float(postscale_factor)
    entry = request(operations.REDUCE, name, dtype, source, result, set_id, op, prescale, postscale, root)
    if result is None:
        return [entry], 0, lambda _, keep=source: tensor if in_place else None
    return [entry], 0, _result(tensor, source, result, in_place)


# --- alltoall ---


def _split_list(splits: Any) -> list[int] | None:
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        given = torch.tensor(splits)
        splits = given if given.is_floating_point() and given.numel() else given.to(torch.int32)
    if splits.dim() != 1:
        raise ValueError("alltoall expects a 1D splits tensor")
    if splits.dtype != torch.int32:
        raise ValueError("alltoall expects splits to contain 32-bit integer elements.")
    return splits.tolist() or None  # no entries: Horovod's way to ask for an even division


def prepare_alltoall(
    tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor | None, name: str | None, process_set: ProcessSet
) -> Prepared:
    """Slices of the first dimension sent to every rank; the result is the pair (output, received splits)."""
    dtype = check_tensor(tensor)
    set_id = set_id_of(process_set)
    rows = _split_list(splits)
    source = reachable(tensor)
    name = tensor_name("alltoall", name, process_set)
    entry = request(operations.ALLTOALL, name, dtype, source, None, set_id, splits=rows)
    device = splits.device if isinstance(splits, torch.Tensor) else None

    def collect(outputs: Any, keep: Any = source) -> tuple[torch.Tensor, torch.Tensor]:
        received = torch.tensor(outputs[0][1] or [], dtype=torch.int32, device=device)
        return adopt(outputs[0], tensor), received

    return [entry], 1, collect


# --- reducescatter ---


def _check_reducescatter(tensor: torch.Tensor) -> int:
    dtype = check_tensor(tensor)
    if tensor.dim() == 0:
        raise ValueError("Reducescatter does not support scalar inputs.")
    return dtype


def prepare_reducescatter(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
    wire_format: int = 0,
) -> Prepared:
    """This rank's slice, along the first dimension, of the reduced tensor."""
    dtype = _check_reducescatter(tensor)
    set_id = set_id_of(process_set)
    source = reachable(tensor)
    name = tensor_name("reducescatter", name, process_set)
    arguments = (set_id, op, float(prescale_factor), float(postscale_factor), 0, None, wire_format)
    entry = request(operations.REDUCESCATTER, name, dtype, source, None, *arguments)
    return [entry], 1, lambda outputs, keep=source: adopt(outputs[0], tensor)


def prepare_grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
    wire_format: int = 0,
) -> Prepared:
    """Reducescatter of several tensors that complete together."""
    tensors = _checked_group(tensors)
    set_id = set_id_of(process_set)
    sources = [reachable(tensor) for tensor in tensors]
    names = member_names("grouped_reducescatter", name, process_set, len(tensors))
    arguments = (set_id, op, float(prescale_factor), float(postscale_factor), 0, None, wire_format)
    dtypes = map(_check_reducescatter, tensors)
    requests = [
        request(operations.REDUCESCATTER, member, dtype, source, None, *arguments)
        for member, dtype, source in zip(names, dtypes, sources)
    ]
    return requests, len(tensors), lambda outputs, keep=sources: tuple(map(adopt, outputs, tensors))
