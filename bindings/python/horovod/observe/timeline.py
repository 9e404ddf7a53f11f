"""Timeline files of a job's ranks: their operations, read whole or from some parts of the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from horovod.command_line import in_words
from horovod.common.model import Fault, anything, listed, modelled, number, of, parse, read_text, shown, text, whole

PACKS = "MEMCPY_IN_FUSION_BUFFER"
UNPACKS = "MEMCPY_OUT_FUSION_BUFFER"
SLICE = "SLICE"  # of a plan that has one stage, of which the activity tells as a whole

Key = tuple[int, Optional[int]]  # what is equal on all ranks of a launch: its process set, and its number there


class NoTimelineError(Exception):
    """A file can't be made use of; the text says why."""


_TIME = number()
_FAR = 1 << 59  # microseconds
_MOST_BYTES = 1 << 29  # of a file that is not one event a line, as the engine's is
_CHUNK = 1 << 21  # bytes of lines that are parsed at once
_SHORT_LINE = 1 << 12  # one that has no number too long to be read
_HEAD = 1 << 18  # more than a line has


@dataclass(frozen=True)
class About:
    """An event's arguments: of the file, of a tensor, or of a launch."""

    name: str | None = of(text(), default=None)
    start_time_since_epoch_in_micros: float | None = of(_TIME, default=None)
    rank: int = of(whole(0, 2**31 - 1), default=0)
    host: str = of(text(255), default="")
    cores: int = of(whole(), default=0)  # of the host, for its ranks; 0 where the file does not tell
    launch: int | None = of(whole(), default=None)
    set: int = of(whole(0, 2**31 - 1), default=0)
    plan: str = of(text(), default="")
    tensors: int = of(whole(), default=0)
    bytes: int | None = of(whole(), default=None)
    bytes_meant: int = of(whole(), default=0)  # in wire formats between hosts, and what was sent for them
    bytes_sent: int = of(whole(), default=0)


_NOTHING = About()
_ABOUT = modelled(About)


@dataclass
class Part:
    """A part of a launch that ran for a while: a copy, or a stage of its plan."""

    what: str
    row: int
    begin: float
    end: float


@dataclass
class Use:
    """One tensor on its way, on one rank. Times in microseconds of the file; nan where the file does not tell."""

    name: str
    row: int = 0  # in the file
    announced: dict[int, float] = field(default_factory=dict)  # by rank: when this rank knew of it
    agreed: float = math.nan
    started: float = math.nan
    ended: float = math.nan
    activity: str = ""
    args: About = _NOTHING
    parts: list[Part] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """A key that is equal on all ranks; without a number in a file that does not tell of launches."""
        return self.args.set, self.args.launch

    def is_whole(self) -> bool:
        """Tell whether the file has all of it, not from its middle on."""
        return math.isfinite(self.agreed + self.started + self.ended)


@dataclass
class RankTimeline:
    """The content of one rank's file, in the order in which tensors were announced."""

    about: About
    uses: list[Use]

    @property
    def rank(self) -> int:
        """The rank that wrote it."""
        return self.about.rank

    def own(self, use: Use) -> float:
        """Return when this rank submitted the tensor; of a file without ranks' marks, when it was agreed on."""
        return use.announced.get(self.rank, use.agreed)


@dataclass
class _Event:
    """An event of the file. Most events tell of a tensor, whose name is that of the process with the event's pid."""

    ph: str = of(text(8))
    pid: int | None = of(whole(), default=None)
    name: str = of(text(), default="")
    args: About = of(_ABOUT, default=_NOTHING)
    ts: float = of(_TIME, default=0.0)
    dur: float = of(number(0), default=0.0)
    tid: int | None = of(whole(0, 1 << 20), default=None)


_EVENT = modelled(_Event)
_EVENTS = listed(anything(), 1 << 28)


def _fields(event: Any, index: int) -> tuple[str, int | None, float, str, int | None, float]:
    """Return kind, process, time, name, row and length. The model checks what is not as the engine writes it."""
    if type(event) is dict:
        get = event.get
        kind, pid, at, what, row, length = get("ph"), get("pid"), get("ts"), get("name", ""), get("tid"), get("dur", 0)
        if (
            (kind == "X" or kind == "B" or kind == "E")
            and type(pid) is type(at) is type(length) is int
            and pid >= 0 <= length < _FAR
            and -_FAR < at < _FAR
            and type(what) is str
            and len(what) < 64
            and what.isprintable()
            and (row is None or (type(row) is int and 0 <= row < 1 << 20))
        ):
            return kind, pid, at, what, row, length
    try:
        told: _Event = _EVENT.take(event)
    except Fault as fault:
        raise fault.below(f"[{index}]") from None
    return told.ph, told.pid, told.ts, told.name, told.tid, told.dur


class _Row:
    """A tensor before its operation has ended. Other ranks may announce it again before it has ended here."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.announced, self.running, self.depth = Use(name, number), Use(name, number), 0


class _Reader:
    """Makes operations of events."""

    def __init__(self, is_part: bool) -> None:
        self._is_part = is_part  # of a file: names stand at its beginning
        self._rows: dict[int | None, _Row] = {}
        self._count = 0

    def take(self, events: list[Any]) -> Iterator[Use]:
        """Yield the operations that end with these events."""
        rows = self._rows
        for index, event in enumerate(events, self._count):
            kind, pid, at, what, number, length = _fields(event, index)
            row = rows.get(pid)
            if kind == "M":
                name = _EVENT.take(event).args.name
                if what == "process_name" and name is not None and pid is not None:
                    rows[pid] = _Row(name, pid)
            elif row is None:
                if self._is_part and pid:
                    rows[pid] = _Row(f"#{pid}", pid)
            elif kind == "X":
                if number is not None:
                    if what != SLICE:
                        row.running.parts.append(Part(what, number, at, at + length))
                elif what.isascii() and what.isdigit() and len(what) < 10:
                    row.announced.announced.setdefault(int(what), at)
                elif what != SLICE:
                    raise Fault(f"is {shown(what)}", "the number of a rank").below(f"[{index}].name")
            elif what.startswith("NEGOTIATE_"):
                if kind == "B":
                    row.announced = Use(row.name, row.number)
                row.announced.agreed = at
            elif kind == "B":
                row.depth += 1
                if row.depth == 1:
                    row.running, row.announced = row.announced, Use(row.name, row.number)
                elif what != "QUEUE":
                    row.running.started, row.running.activity = at, what
                    row.running.args = _about(event, index)
            elif kind == "E" and row.depth:  # else it began before the file
                row.depth -= 1
                if row.depth == 0:
                    row.running.ended = at
                    if row.running.is_whole():
                        yield row.running
        self._count += len(events)


def _tells_of_the_file(event: Any) -> bool:
    args = event.get("args") if type(event) is dict else None
    return type(args) is dict and "start_time_since_epoch_in_micros" in args


def _about(event: Any, index: int = 0) -> About:
    try:
        return _ABOUT.take(event.get("args", {}))  # type: ignore[no-any-return]
    except Fault as fault:
        raise fault.below(f"[{index}].args") from None


def _refused(path: Path, error: OSError | Fault) -> NoTimelineError:
    """Return the error of a file; of a fault in a field, the field is its subject."""
    if isinstance(error, OSError):
        return NoTimelineError(in_words(error))
    return NoTimelineError(f"{path} is no timeline: {'' if str(error)[:1] in '[.' else 'it '}{error}")


class TimelineFile:
    """A rank's file, open to be read whole or in parts.

    Raises
    ------
    NoTimelineError
        The file is no timeline; the text says which field is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.size = path.stat().st_size
            self.has_lines = self._begins_with_lines()
            about = next(map(_about, filter(_tells_of_the_file, next(self._chunks(0, _HEAD)))), _NOTHING)
        except (OSError, Fault) as error:
            raise _refused(path, error) from error
        if about.start_time_since_epoch_in_micros is None:
            raise _refused(path, Fault("has no event that tells start_time_since_epoch_in_micros"))
        self.about = about

    def _begins_with_lines(self) -> bool:
        """Tell whether each event has a line, so that the file can be read piece by piece."""
        with self.path.open("rb") as file:
            head = file.read(_HEAD)
        try:
            return b"\n" in head and bool(_events_of(head[: head.rfind(b"\n") + 1]))
        except Fault:
            return False

    def _chunks(self, begin: int, end: int) -> Iterator[list[Any]]:
        if not self.has_lines:
            yield _EVENTS.take(parse(read_text(self.path, _MOST_BYTES)))
            return
        with self.path.open("rb") as file:
            file.seek(begin)
            rest = b""
            is_first = begin > 0
            while begin < end and (data := file.read(min(_CHUNK, end - begin))):
                begin += len(data)
                cut = len(data) if begin == self.size else data.rfind(b"\n") + 1
                if not cut:
                    raise Fault(f"has a line of more than {len(data)} bytes", "an event in each")
                lines = rest + data[:cut]
                if begin == self.size:
                    lines = _without_half_a_line(lines)
                rest = data[cut:]
                yield _events_of(lines[lines.find(b"\n") + 1 :] if is_first else lines)
                is_first = False

    def read(self, begin: int = 0, end: int | None = None) -> Iterator[Use]:
        """Yield the operations that a part of the file tells of, from the line after `begin` on."""
        reader = _Reader(begin > 0)
        try:
            for events in self._chunks(begin, self.size if end is None else end):
                yield from reader.take(events)
        except (OSError, Fault) as error:
            raise _refused(self.path, error) from error

    def timeline(self, parts: Iterable[tuple[int, int]] = ((0, 1 << 62),)) -> RankTimeline:
        """Return what parts of the file tell of, by default all of it; NoTimelineError when that is nothing."""
        uses = [use for begin, end in parts for use in self.read(begin, end)]
        if not uses:
            raise NoTimelineError(f"{self.path} has no operation that ended")
        timeline = RankTimeline(self.about, uses)
        uses.sort(key=timeline.own)
        return timeline


def _without_half_a_line(lines: bytes) -> bytes:
    """Return a file's last lines, without one that its rank was writing, or had not written when it was killed."""
    last = lines.rstrip().rpartition(b"\n")[2]
    try:
        parse(last.lstrip(b", "))
    except Fault:
        return lines[: lines.rindex(last)]
    return lines


def _events_of(lines: bytes) -> list[Any]:
    """Return the events of whole lines, of the first and the last, too, which have the list's brackets."""
    is_short = max(map(len, lines.split(b"\n"))) <= _SHORT_LINE
    return parse(b"[" + lines.lstrip(b"[, \r\n\t").rstrip(b"], \r\n\t") + b"]", is_short)  # type: ignore[no-any-return]


def read(path: Path) -> RankTimeline:
    """Read a rank's file whole.

    Raises
    ------
    NoTimelineError
        The file is no timeline, or has no operation in it; the text says which field is wrong.
    """
    return TimelineFile(path).timeline()
