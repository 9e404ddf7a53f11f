"""Which rank is at fault when ranks of a job fail, by how they end and by what they report of it.

A rank whose program ends for an error writes a line of JSON (``horovod.common.program_end``): its own error, as
``{"error": "ValueError: bad label 17 (train.py:57)", "traceback": ...}``, and ``"origin": 1`` besides where the error
quotes that of another rank, with ``"is_lost": true`` where that rank did not end in peace. Ranks that report nothing,
because a signal ended them or they are no Python programs, are known by their status.
"""

from __future__ import annotations

import contextlib
import json
import pickle  # noqa: S403
import traceback
from collections.abc import Mapping
from typing import Any

import cloudpickle

_MOST_BYTES = 1 << 18  # of one rank's reports
_FATAL = b"Fatal Python error: "  # of Python's fault handler, for signals that a process's own fault brings
_MOST_FATAL = 24_000  # bytes of what that writes


class RemoteError(Exception):
    """Stands for an exception that can't be had here, with its type and text: it can't be pickled, or imported."""


class Raised:
    """An exception of the function, on its way to the caller.

    Attributes
    ----------
    is_own : bool
        The error quotes no other rank's.
    summary : str
        Its type and text.
    text : str
        Its traceback.
    """

    def __init__(self, error: BaseException, is_own: bool = True) -> None:
        self.is_own = is_own
        lines = traceback.format_exception_only(type(error), error)  # with places, and notes
        self.summary = next(line for line in lines if not line.startswith(" ")).rstrip()
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._data: bytes | None = None
        try:
            data = cloudpickle.dumps(error)
            cloudpickle.loads(data)
            self._data = data
        except Exception:  # noqa: S110 (whatever a class of the user's raises: the text goes alone)
            pass

    @property
    def error(self) -> BaseException:
        """The exception, or what stands for it."""
        try:
            error = None if self._data is None else pickle.loads(self._data)  # noqa: S301
        except Exception:  # its class is not to be had here
            error = None
        return error if isinstance(error, BaseException) else RemoteError(self.summary)

    def noted(self, rank: int) -> BaseException:
        """Return the exception, with its traceback there as a note."""
        error = self.error
        if hasattr(error, "add_note"):  # of Python 3.11
            with contextlib.suppress(Exception):  # the class is the user's
                error.add_note(f"Where the function of rank {rank} raised it:\n{self.text}")
        return error

    def pickled(self) -> bytes:
        """Return what :meth:`unpickled` reads."""
        return pickle.dumps(self)

    @staticmethod
    def first(results: Mapping[int, bytes]) -> BaseException | None:
        """Return the exception of the first rank that raised one of its own, with its traceback as a note."""
        raised = ((rank, Raised.unpickled(data)) for rank, data in sorted(results.items()))
        found = next(((rank, each) for rank, each in raised if each is not None and each.is_own), None)
        return None if found is None else found[1].noted(found[0])

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
        self._lost: set[int] = set()  # ranks whose end others told, which was no orderly one
        self._fatal: dict[int, bytes] = {}  # by rank: what Python's fault handler wrote
        self._first: int | None = None  # the first rank with an error of its own

    def hear(self, rank: int, data: bytes) -> None:
        """Take a piece of what a rank reports; its first whole line counts."""
        text = self._lines.get(rank, b"")
        if b"\n" in text or len(text) > _MOST_BYTES:
            return
        self._lines[rank] = text = text + data
        if b"\n" in text:
            self._read(rank, text.partition(b"\n")[0])

    def see(self, rank: int, data: bytes) -> None:
        """Take what a rank writes to its standard error: Python's fault handler writes there."""
        if rank in self._fatal:
            self._fatal[rank] = (self._fatal[rank] + data)[:_MOST_FATAL]
        elif _FATAL in data:
            self._fatal[rank] = data[data.index(_FATAL) :][:_MOST_FATAL]

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
            if report.get("is_lost") is True:
                self._lost.add(report["origin"])
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

    def is_another_missed(self) -> bool:
        """Tell whether a rank that others have lost has told nothing: it is gone, hangs, or runs another program."""
        return self._first is None and any(not self.has_told(rank) for rank in self._lost)

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
        """Return the error of the rank at fault, and its traceback.

        Where the rank told no error, what the first other rank met stands for that, and what Python's fault handler
        wrote for the traceback. Empty where none told anything.
        """
        if culprit in self._errors:
            return self._errors[culprit]
        fatal = self._fatal.get(culprit, b"").decode(errors="replace")
        for rank, (error, _) in self._errors.items():
            how = "" if error.startswith("ended with") else "met "
            return f"rank {rank} {how}{error}", fatal or "The process at fault left no traceback."
        return "", fatal
