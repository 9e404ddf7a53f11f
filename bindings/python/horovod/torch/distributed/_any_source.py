"""Messages from whoever sends first: the receiver asks all ranks by torch's store, and one that has sent answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakValueDictionary

from horovod.runner.util.threads import signals_blocked
from horovod.torch.distributed._work import Work

Way = tuple[int, int, int]  # source, destination, tag

_desks: WeakValueDictionary[str, Desk] = WeakValueDictionary()  # by group


class Desk:
    """Where a rank answers, for one group, to those who want a message from anybody.

    Parameters
    ----------
    group : str
        Its name.
    rank : int
        Of this process in the group.
    sent : dict
        How many messages this rank has begun to send, or to receive, each way.
    claim : callable
        Says that this rank sends what the want of a number is for, unless another has.
    """

    def __init__(self, group: str, rank: int, sent: dict[Way, int], claim: Callable[[int], None]) -> None:
        self._rank, self._sent, self._claim = rank, sent, claim
        self._wanted: dict[int, tuple[Way, int]] = {}  # by the want's number: the way, and how many are spoken for
        self.last: threading.Thread | None = None  # finds out who sends; one after the other
        _desks[group] = self

    def want(self, number: int, destination: int, tag: int, taken: list[int]) -> None:
        """Take note that a rank wants one more message than it has taken from each."""
        if destination != self._rank:
            self._wanted[number] = (self._rank, destination, tag), taken[self._rank]
            self.answer()

    def answer(self) -> None:
        """Answer for each message that was wanted and has been sent; called after every send."""
        for number, (way, taken) in list(self._wanted.items()):
            if self._sent[way] > taken and self._wanted.pop(number, False):
                self._claim(number)


def note_want(group: str, *want: Any) -> None:
    """Take note of what another rank wants of a group."""
    if group in _desks:
        _desks[group].want(*want)


class WorkFromAny(Work):
    """The receipt of a message from whoever sends first. Parameters as of `Work`.

    `find` returns the source, and `receive` that one's message.
    """

    def __init__(self, desk: Desk, find: Callable[[], int], receive: Callable[[int], Work], *args: Any) -> None:
        self._ended, self._inner = threading.Event(), cast(Work, None)
        self._wrong: Exception | None = None
        before = desk.last

        def run() -> None:
            if before is not None:
                before.join()
            try:
                self._source = find()
                self._inner = receive(self._source)
            except Exception as error:  # noqa: BLE001 (for whoever waits)
                self._wrong = error
            self._ended.set()

        super().__init__(0, None, *args)
        desk.last = threading.Thread(target=run, name="roda-any-source", daemon=True)
        with signals_blocked():
            desk.last.start()

    def _synchronize(self, limit: float) -> None:
        if not self._ended.wait(limit):
            raise TimeoutError
        if self._wrong is not None:
            raise self._wrong
        self._inner._end(self._left())
        if self._inner._error is not None:
            raise self._inner._error

    def _poll(self) -> bool:
        return self._ended.is_set() and (self._wrong is not None or self._inner.is_completed())
