"""Calls of all workers at once, and what becomes of them when one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from horovod.common.exceptions import HorovodInternalError

# When a worker has failed, the others learn of it from their engine, and a death is told by Ray within a second or two.
_LAST_WORDS_SECONDS = 1.0
_GRACE_SECONDS = 10.0  # then a worker that still computes is killed


class WorkerDiedError(RuntimeError):
    """A worker's process has ended.

    Attributes
    ----------
    rank : int or str
        Its rank; in an elastic job ``node[slot]``.
    """

    def __init__(self, rank: int | str, reason: str) -> None:
        super().__init__(
            f"Worker {rank} died. Its job can't go on: call shutdown() and start() to begin a new one. "
            f"What Ray says: {reason}"
        )
        self.rank = rank


def _weight(error: Exception) -> int:
    """Rank errors by how near they are to the cause: what an engine says of others comes last."""
    if isinstance(error, RayActorError):
        return 0
    return 2 if isinstance(error, HorovodInternalError) else 1


class Crew:
    """The workers of a job.

    Parameters
    ----------
    workers : sequence of actor handles
        By rank.
    """

    def __init__(self, workers: Sequence[Any]) -> None:
        self.workers = list(workers)
        self._lost: WorkerDiedError | None = None

    def check(self) -> None:
        """Raise WorkerDiedError when one was lost in an earlier call: the others would wait for it."""
        if self._lost is not None:
            raise self._lost

    def gather(self, refs: Sequence[Any], listen: Callable[[], None] | None = None) -> list[Any]:
        """Return what calls of all workers returned, by rank.

        Parameters
        ----------
        refs : sequence
            Of each worker's call.
        listen : callable, optional
            Called a few times a second.

        Raises
        ------
        WorkerDiedError
            When a worker's process has ended.
        Exception
            What a worker's call raised, as Ray wraps it: with the worker's rank and its traceback. When one call fails,
            the others get some seconds to end; workers that don't are killed.
        """
        pending = {ref: rank for rank, ref in enumerate(refs)}
        results: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        steps = [_LAST_WORDS_SECONDS, _GRACE_SECONDS]
        deadline: float | None = None
        while pending:
            done, _ = ray.wait(list(pending), num_returns=1, timeout=0.2 if deadline or listen else None)
            if listen is not None:
                listen()
            for ref in done:
                rank = pending.pop(ref)
                try:
                    results[rank] = ray.get(ref)
                except Exception as error:  # whatever a user's function raises
                    errors[rank] = error
            if errors and deadline is None:
                deadline = time.monotonic() + steps.pop(0)
            elif deadline is not None and time.monotonic() >= deadline:
                if not steps:
                    break
                deadline = time.monotonic() + steps.pop(0)
                self.leave(errors)
        for rank in pending.values():
            ray.kill(self.workers[rank])
            self._lost = WorkerDiedError(rank, "it was killed, because it had not ended after another one's failure")
        if errors:
            raise self._cause_of(errors)
        return [results[rank] for rank in range(len(refs))]

    def settle(self) -> None:
        """Wait for calls that :meth:`gather` was not asked to wait for; after a failure do as that does."""
        if any(self.gather([worker.has_failed.remote() for worker in self.workers])):
            self.leave()

    def leave(self, ranks: Iterable[int] | None = None) -> None:
        """Have workers, all by default, stop their engines: after a failure the next hvd.init() forms another group."""
        for rank in range(len(self.workers)) if ranks is None else ranks:
            self.workers[rank].leave.remote()

    def _cause_of(self, errors: Mapping[int, Exception]) -> Exception:
        self.leave()
        rank, error = min(errors.items(), key=lambda item: (_weight(item[1]), item[0]))
        if not isinstance(error, RayActorError):
            return error
        self._lost = WorkerDiedError(rank, str(error))
        return self._lost
