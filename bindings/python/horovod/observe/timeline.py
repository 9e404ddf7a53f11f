"""Timeline files of a job's ranks, read and brought to one clock."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from horovod.common.model import Fault, listed, modelled, number, of, parse, read_text, shown, text, whole

PACKS = "MEMCPY_IN_FUSION_BUFFER"
UNPACKS = "MEMCPY_OUT_FUSION_BUFFER"
SLICE = "SLICE"  # of a plan that has one stage, of which the activity tells as a whole


class NoTimelineError(Exception):
    """A file can't be made use of; the text says why."""


_TIME = number()
_MOST_BYTES = 1 << 29  # of a file


@dataclass(frozen=True)
class About:
    """What an event tells of the file, of a tensor, or of a launch."""

    name: str | None = of(text(), default=None)
    start_time_since_epoch_in_micros: float | None = of(_TIME, default=None)
    rank: int = of(whole(0, 2**31 - 1), default=0)
    host: str = of(text(255), default="")
    launch: int | None = of(whole(), default=None)
    set: int = of(whole(0, 2**31 - 1), default=0)
    plan: str = of(text(), default="")
    tensors: int = of(whole(), default=0)
    bytes: int | None = of(whole(), default=None)


_NOTHING = About()


@dataclass
class Part:
    """What ran for a launch for a while: a copy, or a stage of its plan."""

    what: str
    row: int
    begin: float
    end: float


@dataclass
class Use:
    """One tensor on its way, on one rank. Times in microseconds; nan where the file does not tell."""

    name: str
    announced: dict[int, float] = field(default_factory=dict)  # by rank: when this rank knew of it
    agreed: float = float("nan")
    started: float = float("nan")
    ended: float = float("nan")
    activity: str = ""
    args: About = _NOTHING
    parts: list[Part] = field(default_factory=list)

    def times(self) -> Iterable[float]:
        """Return all of them but those of the parts."""
        return (*self.announced.values(), self.agreed, self.started, self.ended)

    def is_whole(self) -> bool:
        """Tell whether the file has all of it, not from its middle on."""
        return all(math.isfinite(at) for at in (self.agreed, self.started, self.ended))

    def shift(self, offset: float) -> None:
        """Go by another clock."""
        self.announced = {rank: at + offset for rank, at in self.announced.items()}
        self.agreed, self.started, self.ended = self.agreed + offset, self.started + offset, self.ended + offset
        for part in self.parts:
            part.begin, part.end = part.begin + offset, part.end + offset


@dataclass
class RankTimeline:
    """What one rank's file says, in the order in which tensors were announced."""

    rank: int
    host: str
    uses: list[Use]

    def own(self, use: Use) -> float:
        """Return when this rank submitted the tensor; of a file without ranks' marks, when it was agreed on."""
        return use.announced.get(self.rank, use.agreed)


@dataclass
class _Event:
    """One of the file; most of them tell of the tensor that is called as the process with their pid is."""

    ph: str = of(text(8))
    pid: int | None = of(whole(), default=None)
    name: str = of(text(), default="")
    args: About = of(modelled(About), default=_NOTHING)
    ts: float = of(_TIME, default=0.0)
    dur: float = of(number(0), default=0.0)
    tid: int | None = of(whole(0, 1 << 20), default=None)


_EVENTS = listed(modelled(_Event), 1 << 28)


def _uses_of(events: list[_Event]) -> Iterable[Use]:
    names = {
        event.pid: event.args.name
        for event in events
        if event.name == "process_name" and event.pid is not None and event.args.name is not None
    }
    of_tensor: dict[int, list[tuple[int, _Event]]] = defaultdict(list)
    for index, event in enumerate(events):
        if event.pid in names and event.ph in ("B", "E", "X"):
            of_tensor[event.pid].append((index, event))
    for pid, own in of_tensor.items():
        yield from _uses_of_tensor(names[pid], own)


def _uses_of_tensor(name: str, events: Iterable[tuple[int, _Event]]) -> Iterable[Use]:
    # Other ranks may announce it again before it has ended here.
    announced, running, depth = Use(name), Use(name), 0
    for index, event in events:
        kind, at, what = event.ph, event.ts, event.name
        if kind == "X" and what == SLICE:
            continue
        if kind == "X" and event.tid is not None:
            running.parts.append(Part(what, event.tid, at, at + event.dur))
        elif kind == "X":
            if not (what.isascii() and what.isdigit() and len(what) < 10):
                raise Fault(f"is {shown(what)}", "the number of a rank").below(f"[{index}].name")
            announced.announced.setdefault(int(what), at)
        elif what.startswith("NEGOTIATE_"):
            if kind == "B":
                announced = Use(name)
            announced.agreed = at
        elif kind == "B":
            depth += 1
            if depth == 1:
                running, announced = announced, Use(name)
            elif what != "QUEUE":
                running.started, running.activity, running.args = at, what, event.args
        elif depth:  # else it began before the file
            depth -= 1
            if depth == 0:
                running.ended = at
                if running.is_whole():
                    yield running


def read(path: Path) -> RankTimeline:
    """Read a rank's file.

    Raises
    ------
    NoTimelineError
        The file is no timeline, or has no operation in it; the text says which field is wrong.
    """
    try:
        events: list[_Event] = _EVENTS.take(parse(read_text(path, _MOST_BYTES)))
        about = next((event.args for event in events if event.args.start_time_since_epoch_in_micros is not None), None)
        if about is None:
            raise Fault("has no event that tells start_time_since_epoch_in_micros")
        uses = list(_uses_of(events))
    except (OSError, Fault) as error:
        raise NoTimelineError(f"{path} is no timeline: {error}") from error
    if not uses:
        raise NoTimelineError(f"{path} has no operation that ended")
    for use in uses:
        use.shift(about.start_time_since_epoch_in_micros or 0.0)
    timeline = RankTimeline(about.rank, about.host, uses)
    uses.sort(key=timeline.own)
    return timeline


def _by_occurrence(timeline: RankTimeline) -> dict[tuple[str, object], Use]:
    """Return the uses by what is equal on all ranks: the name, and the number of the launch in its process set."""
    return {(use.name, (use.args.set, use.args.launch)): use for use in timeline.uses if use.args.launch is not None}


def align(timelines: Sequence[RankTimeline]) -> dict[int, float]:
    """Bring hosts to the first one's clock, and all times near to zero.

    A tensor is agreed on at the same moment everywhere, but for the way of the message. Ranks of one host have one
    clock and need nothing.

    Returns
    -------
    dict
        By rank: what was added to its times, in microseconds.
    """
    first = timelines[0]
    here = _by_occurrence(first)
    offsets = {first.host: 0.0}
    for timeline in timelines[1:]:
        if timeline.host in offsets:
            continue
        there = _by_occurrence(timeline)
        apart = [here[key].agreed - there[key].agreed for key in here.keys() & there.keys()]
        offsets[timeline.host] = statistics.median(apart) if apart else 0.0
    for timeline in timelines:
        for use in timeline.uses:
            use.shift(offsets[timeline.host])
    begin = min(at for timeline in timelines for use in timeline.uses for at in use.times() if at == at)
    for timeline in timelines:
        for use in timeline.uses:
            use.shift(-begin)
    return {timeline.rank: offsets[timeline.host] for timeline in timelines}
