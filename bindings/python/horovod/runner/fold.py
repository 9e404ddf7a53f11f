"""Lines that several ranks print, as one: ``horovodrun --fold``."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from horovod.common.util import ranks_in_brief

_PATIENCE_SECONDS = 0.5  # for the other ranks to print the same line
_MOST_WAITING = 500  # lines
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])")
_LONGEST = 1 << 18  # characters


@dataclass
class _Line:
    text: str
    end: str
    since: float
    ranks: set[Any] = field(default_factory=set)


@dataclass
class Speaker:
    """A rank, as far as it has spoken."""

    begun: str = ""  # of a line whose end has not come
    is_within: bool = False  # a line of which a piece was passed on, because it is very long
    last: _Line | None = None
    may_go_on: bool = False  # a carriage return came last, and a line feed belongs to the same line end
    waiting: dict[str, int] = field(default_factory=dict)  # by text: lines that wait and have this rank

    def cut(self) -> bool:
        """Note that another rank writes now; tell whether this one's line is unfinished."""
        is_within, self.is_within = self.is_within, False
        return is_within


class Fold:
    """Waits a moment for the other ranks' equal lines; the lines of a rank keep their order.

    Parameters
    ----------
    write : callable
        ``write(groups, source)``: gets lines, grouped with which ranks printed them; "" instead of these: what goes on
        with a line that stands there. The source is who goes on with the last line, where that has no end, else None.
    size : int
        Ranks of the job: a line of so many waits no longer.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        write: Callable[[Iterable[tuple[str, Iterable[str]]], Speaker | None], Any],
        size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._size, self._clock = write, size, clock
        self._is_over = False
        self._speakers: dict[Any, Speaker] = {}
        self._lines: deque[_Line] = deque()  # in the order in which they are to be written
        self._equal: dict[str, deque[_Line]] = {}  # the same by text; a rank is in the first ones of equal lines
        self._written: _Line | None = None  # the latest one

    def take(self, rank: Any, text: str) -> None:
        """Take what a rank printed; a line without an end waits for that, or is passed on, if it is very long."""
        speaker = self._speakers.setdefault(rank, Speaker())
        if text == "\n" and speaker.may_go_on:
            return self._end_carriage_return(speaker)
        if speaker.is_within:
            text = self._go_on(speaker, text)
        text = speaker.begun + text
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        speaker.begun = text[end:]
        lines = _LINE.findall(text[:end])
        if self._is_over and lines:
            self._write([(ranks_in_brief({rank}), lines)], None)
        elif lines:
            self._add(rank, speaker, lines)
        if len(speaker.begun) >= _LONGEST:
            self.flush()
            speaker.begun, begun, speaker.is_within = "", speaker.begun, True
            self._write([(ranks_in_brief({rank}), [begun])], speaker)
        return None

    def seconds_left(self) -> float | None:
        """Return when the next line is due to be written; None: none waits."""
        return max(0.0, self._lines[0].since + _PATIENCE_SECONDS - self._clock()) if self._lines else None

    def settle(self) -> None:
        """Write the oldest lines, as far as they wait no longer."""
        due = self._clock() - _PATIENCE_SECONDS
        self._write_while(
            lambda line: len(line.ranks) >= self._size or line.since <= due or len(self._lines) > _MOST_WAITING
        )

    def flush(self) -> None:
        """Write all lines."""
        self._write_while(lambda _line: True)

    def end(self) -> None:
        """Write all lines, and let none wait any more: the job ends, and ranks may have printed millions."""
        self.flush()
        self._is_over = True

    def _go_on(self, speaker: Speaker, text: str) -> str:
        """Pass on the rest of a line whose beginning was passed on; return what follows it."""
        first = _LINE.match(text)
        piece = text if first is None else first[0]
        speaker.is_within = first is None
        self.flush()
        self._write([("", [piece])], speaker if first is None else None)
        return text[len(piece) :]

    def _end_carriage_return(self, speaker: Speaker) -> None:
        speaker.may_go_on = False
        if speaker.last is not None and speaker.last.end == "\r":
            speaker.last.end = "\r\n"
            if speaker.last is self._written:
                self._write([("", ["\n"])], None)

    def _add(self, rank: Any, speaker: Speaker, lines: Iterable[str]) -> None:
        now = self._clock()
        for line in lines:
            text = line.rstrip("\r\n")
            equal = self._equal.setdefault(text, deque())
            count = speaker.waiting.get(text, 0)
            if count == len(equal):
                equal.append(_Line(text, line[len(text) :], now))
                self._lines.append(equal[-1])
            speaker.last = equal[count]
            speaker.last.ranks.add(rank)
            speaker.waiting[text] = count + 1
            speaker.may_go_on = line.endswith("\r")
        self.settle()

    def _write_while(self, is_due: Callable[[_Line], bool]) -> None:
        lines = []
        while self._lines and is_due(self._lines[0]):
            lines.append(self._take_first())
        if lines:
            self._written = lines[-1]
            self._write(_grouped(lines), None)

    def _take_first(self) -> _Line:
        line = self._lines.popleft()
        equal = self._equal[line.text]
        equal.popleft()
        if not equal:
            del self._equal[line.text]
        for rank in line.ranks:
            waiting = self._speakers[rank].waiting
            waiting[line.text] -= 1
            if waiting[line.text] == 0:
                del waiting[line.text]
        return line


def _grouped(lines: Iterable[_Line]) -> Iterator[tuple[str, list[str]]]:
    for ranks, group in groupby(lines, key=lambda line: line.ranks):
        yield ranks_in_brief(ranks), [line.text + line.end for line in group]
