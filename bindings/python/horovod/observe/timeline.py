"""Timeline files of a job's ranks, read and brought to one clock."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKS = "MEMCPY_IN_FUSION_BUFFER"
UNPACKS = "MEMCPY_OUT_FUSION_BUFFER"
SLICE = "SLICE"  # of a plan that has one stage, of which the activity tells as a whole


class NoTimelineError(Exception):
    """A file can't be made use of; the text says why."""


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
    args: dict[str, object] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    def times(self) -> Iterable[float]:
        """Return all of them but those of the parts."""
        return (*self.announced.values(), self.agreed, self.started, self.ended)

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


def _uses_of(events: list[dict[str, object]]) -> Iterable[Use]:
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("name") == "process_name" and "name" in event["args"]
    }
    of_tensor: dict[object, list[dict[str, object]]] = defaultdict(list)
    for event in events:
        if event.get("pid") in names and event.get("ph") in ("B", "E", "X"):
            of_tensor[event["pid"]].append(event)
    for pid, own in of_tensor.items():
        yield from _uses_of_tensor(names[pid], own)


def _uses_of_tensor(name: str, events: Iterable[dict[str, object]]) -> Iterable[Use]:
    # Other ranks may announce it again before it has ended here.
    announced, running, depth = Use(name), Use(name), 0
    for event in events:
        kind, at, what = event["ph"], float(event["ts"]), str(event.get("name", ""))
        if kind == "X" and what == SLICE:
            continue
        if kind == "X" and "tid" in event:
            running.parts.append(Part(what, int(event["tid"]), at, at + float(event["dur"])))
        elif kind == "X":
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
                running.started, running.activity, running.args = at, what, event.get("args", {})
        else:
            depth -= 1
            if depth == 0:
                running.ended = at
                yield running


def read(path: Path) -> RankTimeline:
    """Read a rank's file.

    Raises
    ------
    NoTimelineError
        It is none, or has no operation in it.
    """
    try:
        events = json.loads(path.read_text())
        about = next(event["args"] for event in events if "start_time_since_epoch_in_micros" in event.get("args", ()))
        epoch = float(about["start_time_since_epoch_in_micros"])
        uses = list(_uses_of(events))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise NoTimelineError(f"{path} is no timeline: {error}") from error
    if not uses:
        raise NoTimelineError(f"{path} has no operation that ended")
    for use in uses:
        use.shift(epoch)
    timeline = RankTimeline(int(about.get("rank", 0)), str(about.get("host", "")), uses)
    uses.sort(key=timeline.own)
    return timeline


def _by_occurrence(timeline: RankTimeline) -> dict[tuple[str, object], Use]:
    """Return the uses by what is equal on all ranks: the name, and the number of the launch in its process set."""
    return {
        (use.name, (use.args.get("set"), use.args.get("launch"))): use for use in timeline.uses if "launch" in use.args
    }


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
