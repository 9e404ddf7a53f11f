"""A collective under way, as ``torch.distributed`` wants to wait for it."""

from __future__ import annotations

import atexit
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from horovod.common import operations
from horovod.runner.util.threads import signals_blocked
from horovod.torch.distributed._profile import Span

_TIMEOUT = 5.0
_SMALL = 16  # elements of outputs that a work may keep: DDP's count of ranks that have inputs
# Seconds between two looks at what is under way, and until none is taken.
_SHORT, _LONG, _IDLE, _NEVER = 0.002, 0.05, 1.0, math.inf


class Work(dist._Work):
    """Ends when somebody waits or asks for it, or soon by itself; asked for a future, it has a thread wait.

    Parameters
    ----------
    handle : int
        Of the engine.
    finish : callable, optional
        Gets the engine's result and puts it where the caller wants it. Called once, on the thread that ends the work.
    outputs : list
        Of tensors, or of one list of them for each tensor: the result.
    limit : float
        Seconds from now in which it must end.
    too_late : callable
        Returns the error otherwise.
    group : object, optional
        Whose barriers come after this work.
    on_host : bool
        The outputs are in host memory: any thread may end it. Else the caller's must, for the sake of its stream.
    span : Span, optional
        An event of torch's profiler, which ends with the work.
    """

    def __init__(
        self,
        handle: int,
        finish: Callable[[Any], object] | None,
        outputs: list[Any],
        limit: float,
        too_late: Callable[[float], Exception],
        group: Any = None,
        on_host: bool = True,
        span: Span | None = None,
    ) -> None:
        super().__init__()
        self._handle = handle
        self._finish = finish
        self._outputs = outputs[0] if len(outputs) == 1 and isinstance(outputs[0], (list, tuple)) else outputs
        self._begin, self._limit, self._too_late = time.monotonic(), limit, too_late
        self._group, self._on_host, self._span = group, on_host, span
        self._needs: list[int] = [] if group is None else group._ranks  # in the world
        self._lock = threading.Lock()
        self._done = False
        self._source = -1
        self._error: BaseException | None = None
        self._future: torch.futures.Future | None = None
        if on_host:
            _under_way[id(self)] = self
            _sweeper.watch(finish is not None or span is not None)

    def _synchronize(self, limit: float) -> Any:
        return operations.expect(self._handle, limit)

    def _poll(self) -> bool:
        try:
            return operations.poll(self._handle)
        except ValueError:  # another thread has waited for it
            return True

    def _left(self) -> float:
        return max(0.0, self._begin + self._limit - time.monotonic())

    def _end(self, most: float | None = None) -> None:
        """Wait for the end, at most so many seconds, and keep what went wrong; TimeoutError if that was not enough."""
        with self._lock:
            if self._done:
                return
            left = self._left()
            try:
                result = self._synchronize(left if most is None else min(left, most))
                if self._finish is not None:
                    self._finish(result)
            except TimeoutError:
                if most is not None and most < left:
                    raise
                self._error = self._too_late(self._limit)
            except Exception as error:  # noqa: BLE001 (kept for whoever waits)
                self._error = error
            self._done, self._finish = True, None
        _under_way.pop(id(self), None)
        if self._span is not None:
            self._span.end()

    def _look(self) -> bool:
        """End it if that takes no waiting; tell whether it has ended."""
        if not self._done and not self._lock.locked() and (self._poll() or not self._left()):
            self._end()
        return self._done

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait, at most so long or for the group's time; raise what went wrong, RuntimeError when that was too long."""
        try:
            self._end(timeout.total_seconds() if timeout else None)
        except TimeoutError:
            raise self._too_late(timeout.total_seconds() if timeout else 0.0) from None
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Tell whether it has ended: the outputs have their values then."""
        return self._look() if self._on_host else self._done or self._poll()

    def is_success(self) -> bool:
        """Tell whether it has ended and nothing went wrong."""
        return self._done and self._error is None

    def exception(self) -> BaseException | None:
        """Return what went wrong, or None."""
        return self._error

    def result(self) -> Any:
        """Return the output tensors."""
        self.wait()
        return self._outputs

    def get_future(self) -> torch.futures.Future:
        """Return a future that holds the output tensors in the end."""
        if self._future is None:
            trigger = torch.futures.Future()
            self._future = trigger.then(lambda _: self.result())  # raising in there is what makes a future fail
            if self._on_host and self._look():
                trigger.set_result(None)
            else:
                _finisher.add(self, trigger)
        return self._future

    def _source_rank(self) -> int:
        return self._source  # of a message

    source_rank = _source_rank

    def __del__(self) -> None:
        """Stay a while for torch's C++, which may hold a work that no Python does, and asks its methods here."""
        if _dropped is None:  # Python has cleared this module: it ends
            return
        if self._done:
            if not (len(self._outputs) == 1 and self._outputs[0].numel() <= _SMALL):
                self._outputs = []
            _dropped.append(self)
        elif hasattr(self, "_span"):  # its outputs are on a GPU, and no stream of the caller's waits for them any more
            self._on_host = True
            _under_way[id(self)] = self
            _sweeper.watch(True)


_under_way: dict[int, Work] = {}
_dropped: deque[Work] | None = deque(maxlen=256)


def under_way(group: Any) -> list[Work]:
    """Return what a group has under way."""
    return [work for work in list(_under_way.values()) if work._group is group] if _under_way else []


class _Sweeper:
    """A thread that ends works for which nobody waits, so that their outputs appear and their time runs out.

    Each look takes the interpreter's lock from the program. So looks are rare unless there is something to do at a
    work's end: the engine itself writes the result of most that are waited for at once.
    """

    def __init__(self) -> None:
        self._call = threading.Event()
        self._thread: threading.Thread | None = None
        self._pause = _NEVER
        self._is_urgent = self._over = False
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        _under_way.clear()
        self._call, self._thread, self._pause = threading.Event(), None, _NEVER

    def watch(self, is_urgent: bool) -> None:
        """Look at what is under way, soon where something is to be done at the end of a work that was just added."""
        if is_urgent:
            self._is_urgent = True
        if self._pause > (2 * _SHORT if is_urgent else _LONG):
            self._pause = _SHORT  # once is enough
            self._call.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="roda-works", daemon=True)
                with signals_blocked():
                    self._thread.start()

    def _run(self) -> None:
        pause, idle = _SHORT, 0.0
        while not self._over:
            self._pause = pause
            if pause < _NEVER or not _under_way:
                self._call.wait(None if pause == _NEVER else pause)
            self._call.clear()
            was_urgent, self._is_urgent = self._is_urgent, False
            works = list(_under_way.values())
            ended = [work._look() for work in works]
            idle = 0.0 if works or pause == _NEVER else idle + pause
            pause = _SHORT if was_urgent or any(ended) else min(2 * pause, _LONG)
            del works
            if idle > _IDLE:
                pause = _NEVER

    def stop(self) -> None:
        self._over = True
        self._call.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT)


class _Finisher:
    """Threads that wait for works, in the order in which futures were asked for.

    What follows upon a future runs on the thread that waited for its work, and may itself ask for futures and wait for
    them (PowerSGD's hook does): there is always one thread more than are at that.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Work, torch.futures.Future] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._free = 0  # threads that are not at what follows upon a future
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_threads)

    def _forget_threads(self) -> None:
        self._queue = queue.SimpleQueue()
        self._threads, self._free = [], 0
        self._lock = threading.Lock()

    def add(self, work: Work, trigger: torch.futures.Future) -> None:
        self._queue.put((work, trigger))
        self._count(0)

    def _count(self, change: int) -> None:
        with self._lock:
            self._free += change
            if self._free > 0:
                return
            self._free += 1
            thread = threading.Thread(target=self._run, name="roda-futures", daemon=True)
            self._threads.append(thread)
        with signals_blocked():
            thread.start()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, trigger = item
            work._end()
            self._count(-1)
            trigger.set_result(None)
            self._count(1)

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(_TIMEOUT)


_sweeper, _finisher = _Sweeper(), _Finisher()
# Registered before the engine's own hook, so they run after it: what was under way has ended with an error by then.
atexit.register(_sweeper.stop)
atexit.register(_finisher.stop)
