"""A sharded optimizer in an elastic job: the part that a rank committed last is kept by a neighbour, too.

What is kept is one row of bytes for all state tensors of a part. From a commit's parts any number of ranks make theirs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from horovod.torch._shard import share_of
from horovod.torch._sharded_optimizer import SOME_HAVE_STATE
from horovod.torch.elastic.handler import StateHandler
from horovod.torch.functions import allgather_object, broadcast_object
from horovod.torch.mpi_ops import alltoall, local_size, rank, size

_UNIT = 1024  # bytes that travel as one: their number must fit into 32 bits


@dataclass(frozen=True)
class _Entry:
    """State tensors that have one number for each element of a parameter: a rank has those of its part."""

    index: int  # of the parameter
    key: str
    dtype: torch.dtype
    width: int  # bytes of a number
    elements: int  # of the parameter

    def bytes_of(self, layout: tuple[int, int]) -> tuple[int, int]:
        """Return where a part begins and ends."""
        begin, end = share_of(self.elements, *layout)
        return begin * self.width, end * self.width


@dataclass
class _Description:
    """The part of a state that is the same on all ranks."""

    groups: list[dict[str, Any]]
    entries: list[_Entry]  # the widest first, so that all lie aligned
    rest: dict[int, dict[str, Any]]  # state that is no entry, by parameter
    is_copied: bool = False  # neighbours have the parts, too


@dataclass
class _Part:
    """A rank's part of a commit."""

    layout: tuple[int, int]  # which part of how many
    row: torch.Tensor  # bytes of all entries, one after the other; of one that is kept, filled up to whole units


def _common(entries: Sequence[_Entry], old: tuple[int, int], new: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield what two parts have in common: where it lies in one, where in the other, and how many bytes it is."""
    in_old = in_new = 0
    for entry in entries:
        (a, b), (c, d) = entry.bytes_of(old), entry.bytes_of(new)
        begin, end = max(a, c), min(b, d)
        if begin < end:
            yield in_old + begin - a, in_new + begin - c, end - begin
        in_old, in_new = in_old + b - a, in_new + d - c


def _length(entries: Sequence[_Entry], layout: tuple[int, int]) -> int:
    return sum(end - begin for begin, end in (entry.bytes_of(layout) for entry in entries))


def _givers(kept: Sequence[Sequence[tuple[int, int]]], count: int) -> list[list[int]]:
    """Return which parts each rank gives, of those that the ranks keep: first its own, then copies of others'.

    Each of the `count` parts is given once, if any rank has it.
    """
    given: set[int] = set()
    result: list[list[int]] = [[] for _ in kept]
    for place in range(max(map(len, kept))):
        for giver, layouts in enumerate(kept):
            for part, of in layouts[place : place + 1]:
                if of == count and part not in given:
                    given.add(part)
                    result[giver].append(part)
    return result


def _takers(count: int, on_host: int, leaving: Sequence[int]) -> list[int]:
    """Return which rank keeps a copy of each rank's part.

    With at most so many ranks on a host, which follow one another, the rank so many further is on another one, unless
    a host has more than half of all. Where some are leaving, only those count that stay.
    """
    staying = [rank for rank in range(count) if rank not in leaving] or list(range(count))
    shift = on_host if on_host < len(staying) else 1
    places = [staying.index(rank) + shift if rank in staying else rank for rank in range(count)]
    return [staying[place % len(staying)] for place in places]


def _units(length: int) -> int:
    return -(-length // _UNIT)


def _joined(pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return bytes, one after the other, filled up to whole units."""
    length = sum(map(len, pieces))
    return torch.cat([*pieces, torch.zeros(_units(length) * _UNIT - length, dtype=torch.uint8)])


def _exchange(sent: torch.Tensor, counts: Sequence[int], name: str) -> list[torch.Tensor]:
    """Send so many units to each rank; return what each sent. Collective."""
    received, counts_in = alltoall(sent.view(sum(counts), _UNIT), counts, name)
    return list(received.view(-1).split([count * _UNIT for count in counts_in.tolist()]))


def _copied(value: Any) -> Any:
    """Return a copy, in the host's memory: other ranks would put a tensor on the device with this rank's number."""
    return value.to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)


class ShardedOptimizerStateHandler(StateHandler):
    """For ``DistributedOptimizer(sharded=True)``.

    Parameters
    ----------
    value : ShardedMixin
        The optimizer, of all ranks.

    Attributes
    ----------
    has_commit : bool
        Whether what is kept belongs to the commit that all ranks go on from; set before :meth:`sync`.
    leaving : sequence of int
        Ranks that are about to be removed, so that a copy of theirs is with others; set before :meth:`save`.

    Raises
    ------
    ValueError
        For an optimizer of another process set than the global one.
    """

    has_commit = True
    leaving: Sequence[int] = ()

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        if value.process_set.process_set_id != 0:
            raise ValueError("An elastic state takes a sharded optimizer of all ranks, not one of a process set.")
        self._on_host = 1  # the most ranks on one host
        self.keep()

    def set_value(self, value: Any) -> None:
        """Look after another optimizer from now on. Until the next commit no neighbour has its state."""
        self.value = value
        self.keep()

    def keep(self) -> None:
        """Keep a copy of this rank's part, and no neighbour's."""
        optimizer = self.value
        found: list[tuple[_Entry, torch.Tensor]] = []
        rest: dict[int, dict[str, Any]] = {}
        for index, shard in enumerate(optimizer._shards):
            for key, value in optimizer.state.get(shard.part, {}).items():
                if shard.is_part(key, value):
                    elements = shard.parameter.numel()
                    found.append((_Entry(index, key, value.dtype, value.element_size(), elements), value))
                else:
                    rest.setdefault(index, {})[key] = _copied(value)
        found.sort(key=lambda pair: (-pair[0].width, pair[0].index, pair[0].key))
        entries = [entry for entry, _ in found]
        length = _length(entries, optimizer._layout)
        row = torch.empty(_units(length) * _UNIT, dtype=torch.uint8)
        row[length:] = 0
        for piece, (_, value) in zip(self._pieces(entries, optimizer._layout, row), found):
            piece.copy_(value.detach())
        groups = copy.deepcopy(optimizer.state_dict()["param_groups"])
        self._description = _Description(groups, entries, rest)
        self._kept = [_Part(optimizer._layout, row)]

    def save(self) -> None:
        """Keep a copy of this rank's part, and one of a neighbour's; collective."""
        self.keep()
        me, count = self._kept[0].layout
        if count == 1:
            return
        takers = _takers(count, self._on_host, self.leaving)
        row = self._kept[0].row
        counts = [len(row) // _UNIT if takers[me] == taker else 0 for taker in range(count)]
        received = _exchange(row, counts, "elastic.copy")
        self._description.is_copied = True
        self._kept += [_Part((rank, count), received[rank]) for rank in range(count) if takers[rank] == me != rank]

    def restore(self) -> None:
        """Go back to the last copy; where the job has other ranks by now, :meth:`sync` does."""
        if self._kept[0].layout == self.value._layout:
            self._load(self._description, self._kept[0])

    def sync(self) -> None:
        """Give each rank its part of the commit; collective. What is kept stays as it is.

        Raises
        ------
        RuntimeError
            On all ranks, when there is a part that no rank has.
        ValueError
            At the start, when some ranks' optimizers have state and some have none.
        """
        layouts = [part.layout for part in self._kept] if self.has_commit else []
        told = allgather_object((layouts, bool(self._description.entries), local_size()), "elastic.kept")
        first = next(i for i, (layouts, _, _) in enumerate(told) if layouts)
        if len({has_state for layouts, has_state, _ in told if layouts}) > 1:
            raise ValueError(SOME_HAVE_STATE)
        description = broadcast_object(self._description, first, "elastic.description")
        count = told[first][0][0][1]
        part = self._collect(description, _givers([layouts for layouts, _, _ in told], count), count)
        self._on_host = max(on_host for _, _, on_host in told)
        self.value._cut_anew()
        self._load(description, part)

    def _collect(self, description: _Description, givers: Sequence[Sequence[int]], count: int) -> _Part:
        """Return this rank's part, of what the ranks give."""
        entries = description.entries
        lost = sorted(set(range(count)).difference(*givers))
        if lost and entries:
            ranks = f"{'ranks' if len(lost) > 1 else 'rank'} {', '.join(map(str, lost))} of {count}"
            if not description.is_copied:
                raise RuntimeError(
                    f"The sharded optimizer's state of {ranks} is lost: they ended before the first commit of this "
                    "optimizer, which gives neighbours a copy. Start the job again."
                )
            raise RuntimeError(
                f"The commit of {ranks} is lost: their parts of the sharded optimizer's state were kept by them and "
                "their neighbours alone, which ended together. Load your checkpoint."
            )
        kept = {part.layout[0]: part.row for part in self._kept}
        me = (rank(), size())
        outgoing = [
            _joined(
                [
                    kept[given][begin : begin + length]
                    for given in givers[me[0]]
                    for begin, _, length in _common(entries, (given, count), (taker, size()))
                    if taker != me[0]
                ]
            )
            for taker in range(size())
        ]
        counts = [len(share) // _UNIT for share in outgoing]
        row = torch.empty(_length(entries, me), dtype=torch.uint8)
        for giver, received in enumerate(_exchange(torch.cat(outgoing), counts, "elastic.parts")):
            at = 0
            for given in givers[giver]:
                for there, here, length in _common(entries, (given, count), me):
                    source, begin = (kept[given], there) if giver == me[0] else (received, at)
                    row[here : here + length] = source[begin : begin + length]
                    at += length
        return _Part(me, row)

    def _load(self, description: _Description, part: _Part) -> None:
        state = copy.deepcopy(description.rest)
        for entry, piece in zip(description.entries, self._pieces(description.entries, part.layout, part.row)):
            state.setdefault(entry.index, {})[entry.key] = piece.clone()
        self.value.load_state_dict({"state": state, "param_groups": copy.deepcopy(description.groups)})

    @staticmethod
    def _pieces(entries: Sequence[_Entry], layout: tuple[int, int], row: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the tensor of each entry, as a view."""
        at = 0
        for entry in entries:
            begin, end = entry.bytes_of(layout)
            yield row[at : at + end - begin].view(entry.dtype)
            at += end - begin
