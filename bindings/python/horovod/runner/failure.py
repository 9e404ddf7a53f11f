"""The error of a job of which a rank failed, and what it tells the user."""

from __future__ import annotations

import signal
from dataclasses import dataclass


def exit_code(status: int) -> int:
    """Return what a shell would call a rank's status: 128 + n for one that signal n ended."""
    return 128 - status if status < 0 else status


def signal_name(number: int) -> str:
    """Return how errors call a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


@dataclass
class Cause:
    """Why a job failed, as far as ranks told it."""

    host: str
    error: str  # what was told of it; empty: nothing
    traceback: str
    others: int  # ranks that ended for it

    def text(self) -> str:
        """Return lines for the user."""
        lines = [f"Host: {self.host}", f"Cause: {self.error}" if self.error else "", self.traceback.rstrip()]
        if self.others > 0:
            lines.append(f"{self.others} other {'rank' if self.others == 1 else 'ranks'} ended for this cause.")
        return "".join(f"{line}\n" for line in lines if line)


class JobFailedError(RuntimeError):
    """A rank ended with a non-zero status.

    With :func:`horovod.run` the exception of the rank's function is its ``__cause__``, or a
    :class:`horovod.runner.blame.RemoteError` that stands for one that can't be pickled.

    Attributes
    ----------
    rank : int or str
        The first one that did, for an error of its own; a worker of an elastic job as ``host[slot]``.
    exit_code : int
        Its status, 128 + n for one that signal n ended; 1 where that was 0 and the rank reported an error.
    """

    def __init__(self, rank: int | str, status: int, cause: Cause | None = None) -> None:
        super().__init__(
            "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
            f"terminated. The first process to do so was:\nProcess name: {rank}\nExit code: {exit_code(status)}\n"
            + (f"Ended by: {signal_name(-status)}\n" if status < 0 else "")
            + (cause.text() if cause is not None else "")
        )
        self.rank = rank
        self.exit_code = exit_code(status) or 1
