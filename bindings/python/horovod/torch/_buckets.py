"""Gradients that live in buckets: one contiguous tensor for many, reduced as it lies, without a copy."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from horovod import _roda
from horovod.common.operations import set_id_of, shutdowns
from horovod.common.process_sets import ProcessSet

# A bucket takes in parameters up to this size; a larger parameter has one of its own. Small enough that the first
# bucket travels while the backward pass still computes the others.
_BYTES = 16 << 20
# Gradients begin on cache lines, as the engine lays out what it packs itself.
_LINE = 64


class Bucket:
    """Gradients of one dtype on one device, in one piece of memory that is laid out once.

    The memory is taken when the first gradient comes: parameters may be moved until then.

    Parameters
    ----------
    name : str
        What the ranks match by; it stands for the members and their places, so that only equal buckets meet.
    members : sequence of torch.Tensor
        The parameters, in the order of their gradients in memory.
    """

    def __init__(self, name: str, members: Sequence[torch.Tensor]) -> None:
        self.name, self.members = name, list(members)
        self._begins, self._elements = _lay_out(self.members)
        self._flat: torch.Tensor | None = None
        # With where each began and its parameter's strides, to notice when either changes: torch replaces the memory of
        # a gradient and leaves the tensor the same (Module.to, .grad.data = ...).
        self._views: dict[torch.Tensor, tuple[torch.Tensor, tuple[int, tuple[int, ...]]]] = {}
        self._shutdowns = -1  # before the engine was last asked for memory

    def __deepcopy__(self, memo: dict[int, Any]) -> Bucket:
        """A copy is of the copied parameters, and has memory of its own."""
        return Bucket(self.name, copy.deepcopy(self.members, memo))

    @property
    def flat(self) -> torch.Tensor:
        """All gradients, as one tensor."""
        if self._flat is None:
            first = self.members[0]
            self._flat = torch.zeros(self._elements, dtype=first.dtype, device=first.device)
        return self._flat

    def holds(self, parameter: torch.Tensor) -> bool:
        """Tell whether the parameter's gradient is a part of the bucket already."""
        kept = self._views.get(parameter)
        return kept is not None and parameter.grad is kept[0] and kept[1] == (kept[0].data_ptr(), parameter.stride())

    def can_hold(self, gradient: torch.Tensor) -> bool:
        """Tell whether a gradient is of the bucket's kind: it is not when it is sparse, or its parameter was moved."""
        flat = self.flat
        is_alike = gradient.dtype == flat.dtype and gradient.device == flat.device
        return gradient.layout is torch.strided and is_alike

    @torch.no_grad()
    def take_in(self, parameter: torch.Tensor) -> None:
        """Make ``parameter.grad`` a part of the bucket, with the value that it has; zeros for None."""
        view, gradient = self._view(parameter), parameter.grad
        if gradient is None:
            view.zero_()
        else:  # with other strides it may lie in the same place, in another order
            view.copy_(gradient if gradient.stride() == view.stride() else gradient.clone())
        parameter.grad = view

    def _view(self, parameter: torch.Tensor) -> torch.Tensor:
        kept = self._views.get(parameter)
        if kept is not None and kept[1] == (kept[0].data_ptr(), parameter.stride()):
            return kept[0]
        # Not a slice, which torch would know as a view, and refuse to detach in place.
        return self._place(parameter, torch.empty(0, dtype=self.flat.dtype, device=self.flat.device))

    def _place(self, parameter: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        strides = torch.empty_like(parameter, device="meta").stride()
        view.set_(self.flat.untyped_storage(), self._begins[parameter], parameter.shape, strides)
        self._views[parameter] = view, (view.data_ptr(), parameter.stride())
        return view

    @torch.no_grad()
    def move_within_reach(self, process_set: ProcessSet) -> None:
        """Move to memory that the other ranks reach, where the engine has such; asked for once for every start of it.

        While nothing is under way. Gradients stay the tensors that they are.
        """
        if not self.flat.is_cpu or self._shutdowns == shutdowns():
            return
        self._shutdowns = shutdowns()
        capsule = _roda.lend_memory(set_id_of(process_set), self.flat.numel() * self.flat.element_size())
        if capsule is None:
            return
        self._flat = from_dlpack(capsule).view(self.flat.dtype).copy_(self.flat)
        for parameter, (view, _) in list(self._views.items()):
            self._place(parameter, view)


def _lay_out(members: Sequence[torch.Tensor]) -> tuple[dict[torch.Tensor, int], int]:
    """Return the element at which each gradient begins, and the number of all."""
    begins, end = {}, 0
    for member in members:
        begins[member] = end
        line = max(1, _LINE // member.element_size())
        end += -(-member.numel() // line) * line
    return begins, end


def make_buckets(trained: Iterable[torch.Tensor], name_of: Mapping[torch.Tensor, str]) -> dict[torch.Tensor, Bucket]:
    """Return the bucket of each parameter: in reverse order, as gradients come, and in the same way on all ranks."""
    found: list[list[torch.Tensor]] = []
    open_bucket: dict[tuple[torch.dtype, torch.device], tuple[list[torch.Tensor], int]] = {}
    for parameter in reversed(list(trained)):
        kind, size = (parameter.dtype, parameter.device), parameter.numel() * parameter.element_size()
        members, held = open_bucket.get(kind, ([], 0))
        if not members or held + size > _BYTES:
            members, held = [], 0
            found.append(members)
        members.append(parameter)
        open_bucket[kind] = (members, held + size)
    buckets = [Bucket(_bucket_name(i, members, name_of), members) for i, members in enumerate(found)]
    return {member: bucket for bucket in buckets for member in bucket.members}


def _bucket_name(number: int, members: Sequence[torch.Tensor], name_of: Mapping[torch.Tensor, str]) -> str:
    contents = ";".join(f"{name_of[member]}:{list(member.shape)}:{member.dtype}" for member in members)
    return f"bucket.{number}.{name_of[members[0]]}.{zlib.crc32(contents.encode()):08x}"
