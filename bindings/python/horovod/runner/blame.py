"""Which rank is at fault when ranks of a job fail, by how they end and by what they report of it.

A rank whose program ends for an error writes a line of JSON (``horovod.common.program_end``): its own error, as
``{"error": "ValueError: bad label 17 (train.py:57)", "traceback": ...}``, and ``"origin": 1`` besides where the error
quotes that of another rank. Ranks that report nothing, because a signal ended them or they are no Python programs,
are known by their status.
"""

from __future__ import annotations

import json
import pickle  # noqa: S403
import traceback
from typing import Any

import cloudpickle

_MOST_BYTES = 1 << 18  # of one rank's reports


class Raised:
    """An exception of the function, on its way to the caller.

    Attributes
    ----------
    text : str
        Its traceback.
    """

    def __init__(self, error: BaseException) -> None:
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._data: bytes | None = None
        try:
            data = cloudpickle.dumps(error)
            cloudpickle.loads(data)
            self._data = data
        except Exception:  # noqa: S110 (whatever a class of the user's raises: the text goes alone)
            pass

    @property
    def error(self) -> BaseException | None:
        """The exception; None where it can't be pickled, or its class is not to be had here."""
        try:
            return None if self._data is None else pickle.loads(self._data)  # noqa: S301
        except Exception:
            return None

    def pickled(self) -> bytes:
        """Return what :meth:`unpickled` reads."""
        return pickle.dumps(self)

    @staticmethod
    def unpickled(data: bytes | None) -> Raised | None:
        """Return what :meth:`pickled` made, of a rank that knows the job's secret; None for anything else."""
        try:
            raised = None if data is None else pickle.loads(data)  # noqa: S301
        except Exception:  # a result, with a class that is not to be had here
            return None
        return raised if isinstance(raised, Raised) else None


class Blame:
    """Takes what comes of the ranks, in the order in which it comes. Not thread-safe."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}  # what came of reports
        self._errors: dict[int, tuple[str, str]] = {}  # by rank: the error, and the traceback
        self._origins: dict[int, int] = {}  # by rank: whose error that quotes
        self._first: int | None = None  # the first rank with an error of its own

    def hear(self, rank: int, data: bytes) -> None:
        """Take a piece of what a rank reports; its first whole line counts."""
        text = self._lines.get(rank, b"")
        if b"\n" in text or len(text) > _MOST_BYTES:
            return
        self._lines[rank] = text = text + data
        if b"\n" in text:
            self._read(rank, text.partition(b"\n")[0])

    def _read(self, rank: int, line: bytes) -> None:
        try:
            report: Any = json.loads(line)
        except (ValueError, RecursionError):
            return  # of a program that writes to descriptors which are not its own
        if not isinstance(report, dict):
            return
        if isinstance(report.get("error"), str):
            self._errors[rank] = (report["error"], str(report.get("traceback", "")))
        if isinstance(report.get("origin"), int):
            self._origins[rank] = report["origin"]
        elif rank in self._errors:
            self._blame(rank)

    def failed(self, rank: int) -> None:
        """Take note that a rank ended with a status that is not 0."""
        if not self.is_victim(rank):
            self._blame(rank)

    def _blame(self, rank: int) -> None:
        if self._first is None:
            self._first = rank

    def culprit(self) -> int | None:
        """Return the rank at fault; one that others name where none has failed by itself."""
        return self._first if self._first is not None else next(iter(self._origins.values()), None)

    def has_told(self, rank: int) -> bool:
        """Tell whether a rank has reported an error."""
        return rank in self._errors

    def is_victim(self, rank: int) -> bool:
        """Tell whether a rank has said that its error is another one's."""
        return rank in self._origins

    def count_others(self, rank: int) -> int:
        """Return how many ranks beside that one ended for another one's error."""
        return len(self._origins) - self.is_victim(rank)

    def words_on(self, culprit: int) -> tuple[str, str]:
        """Return the error of the rank at fault, and the traceback; where it told none, what the first other rank met.

        Empty where none told anything.
        """
        if culprit in self._errors:
            return self._errors[culprit]
        for rank, (error, trace) in self._errors.items():
            return f"rank {rank} {'' if error.startswith('ended with') else 'met '}{error}", trace
        return "", ""
