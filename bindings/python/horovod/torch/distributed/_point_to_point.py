"""Messages from one rank to another: a broadcast in the process set of the two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from horovod.common import operations
from horovod.common.exceptions import HorovodInternalError
from horovod.torch import _ops, _tensors
from horovod.torch.distributed import _farewell, _sets
from horovod.torch.distributed._any_source import Desk, WorkFromAny
from horovod.torch.distributed._arguments import require
from horovod.torch.distributed._face import NAMES, Face
from horovod.torch.distributed._layout import Finish, fill, flattened
from horovod.torch.distributed._profile import Span
from horovod.torch.distributed._work import Work

_SIZES_DIFFER = "Mismatched BROADCAST tensor shapes"


class Message(Work):
    """A message. Parameters as of `Work`.

    Where the receiver has room for more or fewer elements than the sender gives, both learn so from the engine, and
    both start what `again` prepares, whose size the sender alone says.
    """

    def __init__(self, again: Callable[[], _ops.Prepared], *args: Any) -> None:
        self._again: Callable[[], _ops.Prepared] | None = again
        super().__init__(*args)

    def _synchronize(self, limit: float) -> Any:
        try:
            return super()._synchronize(limit)
        except HorovodInternalError as error:
            if self._again is None or _SIZES_DIFFER not in str(error):
                raise
        self._handle, self._again = _tensors.start(*self._again(), in_turn=True), None
        return super()._synchronize(min(limit, self._left()))


class PointToPoint(Face):
    """A group that exchanges messages. Parameters as of `Face`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        own = self._own_rank
        self._desk = Desk(self._name, own, self._messages, lambda number: _sets.registrar().claim(number, own))

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Work:
        """Send a tensor to a rank of the group; done when that rank has received it."""
        work = self._message("send", tensors, self._own_rank, dst, tag, None)
        self._desk.answer()
        return work

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Work:
        """Receive what a rank of the group sends with the same tag, in the order of its sends."""
        if self._desk.last is not None:
            self._desk.last.join()
        return self._receive(tensors, tag, self._span("recv", tensors), src)

    def _receive(self, tensors: list[Tensor], tag: int, span: Span | None, src: int) -> Work:
        def finish(result: Any) -> None:
            if type(result) is tuple:  # sent again
                wire, (result, _) = flattened(tensors[0]), result
                fits = result.numel() <= wire.numel()
                require(fits, f"recv: a message of {result.numel()} elements, and a tensor of {wire.numel()}")
                result = torch.cat([result, wire[result.numel() :]])
            fill(tensors, result)

        return self._message("recv", tensors, src, self._own_rank, tag, finish, span)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Work:
        """Receive from whichever rank of the group sends with the same tag; ``_source_rank()`` of the work tells."""
        own = self._own_rank

        def find() -> int:
            taken = [self._messages[source, own, tag] for source in range(len(self._ranks))]
            limit = timedelta(seconds=self._limit)
            return _sets.registrar().find_source(self._name, own, tag, taken, limit)

        def late(limit: float) -> Exception:
            return RuntimeError(
                f"[Rank {own}]: Timed out after {limit * 1000:.0f} ms: no rank has sent with tag {tag}."
            )

        _sets.registrar()
        receive = functools.partial(self._receive, tensors, tag, None)
        span = self._span("recvAnySource", tensors)
        return WorkFromAny(self._desk, find, receive, tensors, self._limit, late, None, True, span)

    def _message(
        self,
        what: str,
        tensors: list[Tensor],
        source: int,
        destination: int,
        tag: int,
        finish: Finish | None,
        span: Span | None = None,
    ) -> Work:
        require(len(tensors) == 1, f"{what} takes a single tensor")
        other = destination if what == "send" else source
        require(0 <= other < len(self._ranks), f"{what}: invalid rank: {other}")
        require(tag >= 0, f"{what}: invalid tag: {tag}")
        require(source != destination, f"{what}: rank {other} would exchange a message with itself")
        ends = [self._ranks[source], self._ranks[destination]]
        pair = self._set
        if len(self._ranks) > 2:
            pair = _sets.set_of_pair(sorted(ends), timedelta(seconds=self._limit))
        way = (source, destination, tag)
        name = f"{self._prefix}.{source}to{destination}.{tag}.{self._messages[way] % NAMES}"
        self._messages[way] += 1
        if what == "send":
            span = self._span(what, tensors)
        flat = flattened(tensors[0])
        prepared = _ops.prepare_broadcast(flat, True, ends[0], name, pair)

        def again() -> _ops.Prepared:
            given = flat if what == "send" else flat[:0]
            splits = [given.numel() if rank == ends[1] else 0 for rank in sorted(ends)]
            return _ops.prepare_alltoall(given, splits, name, pair)

        def late(limit: float) -> Exception:
            done = f"rank {other} has not {'received' if what == 'send' else 'sent'} it"
            return RuntimeError(
                f"[Rank {self._own_rank}]: Timed out after {limit * 1000:.0f} ms waiting for {what}, tag {tag}: {done}."
            )

        if _farewell.leaving:
            _sets.registrar().farewell.needs(ends)
        on_host = prepared[0][0].device == operations.HOST
        handle = _tensors.start(*prepared, in_turn=True)
        work = Message(again, handle, finish, tensors, self._limit, late, None, on_host, span)
        work._source, work._needs = source, ends
        return work
