"""Who is told of a rank that keeps the others waiting."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from horovod import _roda

_LOOK_S = 0.5


@dataclass(frozen=True)
class Straggler:
    """A rank that came last in most of a number of steps, as one of those that wait for it has found.

    Attributes
    ----------
    rank : int
        The rank.
    host : str
        The name of its host.
    steps, of_steps : int
        In how many of the steps that were looked at.
    share : float
        Part of the time in which the others waited for the rank, between 0 and 1.
    seconds : float
        How long the others waited for the rank in the median of those steps.
    before_first : float or None
        How many seconds of that the rank was late with the first tensor of a step: the rest came between its tensors.
        None in a program that waits for each tensor before it submits the next.
    cause : str
        Why the rank is slow, in words, as far as the rank sees that: ``its cgroup is throttled, 40 % of the time``.
    """

    rank: int
    host: str
    steps: int
    of_steps: int
    share: float
    seconds: float
    before_first: float | None
    cause: str


_lock = threading.Lock()
_told: list[Callable[[Straggler], object]] = []


def tell(call: Callable[[Straggler], object]) -> None:
    """Have a function called from now on, on a thread of its own."""
    with _lock:
        _told.append(call)
        if len(_told) == 1:
            threading.Thread(target=_run, name="horovod-stragglers", daemon=True).start()


def _run() -> None:
    seen = "{}"
    pause = threading.Event()
    while not pause.wait(_LOOK_S):
        latest = _roda.describe_straggler()
        if latest != seen and latest != "{}":
            news = json.loads(latest)
            del news["number"]
            with _lock:
                calls = list(_told)
            for call in calls:
                try:
                    call(Straggler(**news))
                except Exception:
                    logging.getLogger("horovod").exception("A function given to hvd.on_straggler failed.")
        seen = latest


class Latest:
    """The latest rank that was told of, for programs that look at times of their own."""

    def __init__(self) -> None:
        self._told: list[Straggler] = []
        tell(self._told.append)

    def take(self) -> dict[str, float]:
        """Return what loggers write: the rank (-1: none since the last call) and by how many ms it comes last."""
        told = [self._told.pop(0) for _ in range(len(self._told))]
        return {
            "straggler": float(told[-1].rank if told else -1),
            "straggler_ms": 1e3 * told[-1].seconds if told else 0.0,
        }


_collection_began = 0


def _note_collection(phase: str, _: dict[str, int]) -> None:
    global _collection_began
    if phase == "start":
        _collection_began = time.perf_counter_ns()
    else:
        _roda.note_collection(time.perf_counter_ns() - _collection_began)


def count_collections() -> None:
    """Have the engine know from now on how long garbage collections take: they are a cause of lateness."""
    if _note_collection not in gc.callbacks:
        gc.callbacks.append(_note_collection)


def count_no_collections() -> None:
    """End this."""
    with contextlib.suppress(ValueError):
        gc.callbacks.remove(_note_collection)
