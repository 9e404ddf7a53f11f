"""Lines that several ranks print, as one: ``horovodrun --fold``."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from horovod.common.util import ranks_in_brief

_PATIENCE_SECONDS = 0.5  # for the other ranks to print the same line
_MOST_WAITING = 500  # lines
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+\Z")
_LONGEST = 1 << 18  # characters


@dataclass
class _Line:
    text: str
    since: float
    ranks: set[Any] = field(default_factory=set)


class Fold:
    """Waits a moment for the other ranks' equal lines; the lines of a rank keep their order.

    Parameters
    ----------
    write : callable
        ``write(ranks, text)``: gets a line, and which ranks printed it.
    size : int
        Ranks of the job: a line of so many waits no longer.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self, write: Callable[[str, str], Any], size: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._size, self._clock = write, size, clock
        self._begun: dict[Any, str] = {}  # of a rank: a line whose end has not come
        self._lines: deque[_Line] = deque()  # in the order in which they are to be written

    def take(self, rank: Any, text: str) -> None:
        """Take what a rank printed; a line without an end waits for that, unless it is very long."""
        for line in _LINE.findall(self._begun.pop(rank, "") + text):
            if not line.endswith(("\n", "\r")):
                if len(line) < _LONGEST:
                    self._begun[rank] = line
                    break
                line += "\n"  # noqa: PLW2901
            same = (each for each in self._lines if each.text == line and rank not in each.ranks)
            if (found := next(same, None)) is not None:
                found.ranks.add(rank)
            else:
                self._lines.append(_Line(line, self._clock(), {rank}))
            self.settle()

    def seconds_left(self) -> float | None:
        """Return when the next line is due to be written; None: none waits."""
        return max(0.0, self._lines[0].since + _PATIENCE_SECONDS - self._clock()) if self._lines else None

    def settle(self) -> None:
        """Write the oldest lines, as far as they wait no longer."""
        due = self._clock() - _PATIENCE_SECONDS
        while self._lines and (
            len(self._lines[0].ranks) >= self._size or self._lines[0].since <= due or len(self._lines) > _MOST_WAITING
        ):
            self._write_first()

    def flush(self) -> None:
        """Write all lines."""
        while self._lines:
            self._write_first()

    def _write_first(self) -> None:
        line = self._lines.popleft()
        self._write(ranks_in_brief(line.ranks), line.text)
