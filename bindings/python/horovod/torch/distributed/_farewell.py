"""The end of a rank's program: the rank stays in the job while others have operations that go on without it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from horovod import _roda
from horovod.torch.distributed import _work

_PATIENCE = 30.0  # seconds that a rank stays at most: another one may be at something that this module does not see
_LOOK = 0.05  # seconds between two looks at whether the engine has ended, and until a call that was about to end has

groups: weakref.WeakSet[Any] = weakref.WeakSet()  # of this backend
leaving: set[int] = set()  # ranks whose program has ended, but this one; a group's calls look at it


class Farewell:
    """Tells others that this rank's program has ended, and hears from them whether they need it to leave.

    An operation that a rank's end would leave without its match raises an error at once, as soon as the rank has left.

    Parameters
    ----------
    tell : callable
        Has every rank's :meth:`note` called with these: the rank that leaves, and whether it is to leave now.
    rank, size : int
        This process's numbers in the job.
    """

    def __init__(self, tell: Callable[[int, bool], object], rank: int, size: int) -> None:
        self._tell, self._rank, self._size = tell, rank, size
        self._gone: set[int] = set()
        self._may_leave = threading.Event()
        leaving.clear()

    def leave(self) -> None:
        """Wait for what is under way here, and until every rank's program has ended or one waits for this rank."""
        for work in list(_work._under_way.values()):
            work._end()
        self._tell(self._rank, False)
        end = time.monotonic() + _PATIENCE
        while not self._may_leave.wait(_LOOK) and time.monotonic() < end and _roda.end_cause() is None:
            pass

    def note(self, rank: int, now: bool) -> None:
        """Take note that a rank's program has ended, or that a rank is to leave."""
        self._gone.add(rank)
        if rank == self._rank and now or len(self._gone) == self._size:
            self._may_leave.set()
        elif rank != self._rank and not now:
            leaving.add(rank)
            before = set(_calls_with(rank))
            if before:  # they may be at their ends, with all that they need of that rank
                time.sleep(_LOOK)
                if before.intersection(_calls_with(rank)):
                    self._tell(rank, True)

    def needs(self, ranks: list[int]) -> None:
        """Have those of these ranks leave whose program has ended."""
        for rank in leaving.intersection(ranks):
            self._tell(rank, True)


def _calls_with(rank: int) -> Iterator[Any]:
    for group in list(groups):
        if group._at and rank in group._ranks:
            yield group, group._at
    for work in list(_work._under_way.values()):
        if rank in work._needs:
            yield work
