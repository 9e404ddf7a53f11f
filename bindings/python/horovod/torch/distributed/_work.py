"""A collective under way, as ``torch.distributed`` wants to wait for it."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from horovod.common import operations
from horovod.runner.util.threads import signals_blocked

_TIMEOUT = 5.0


class Work(dist._Work):
    """Ends when somebody waits for it; asked for a future, it has a thread wait.

    Parameters
    ----------
    handle : int
        Of the engine.
    finish : callable, optional
        Gets the engine's result and puts it where the caller wants it. Called once, on the thread that waits.
    outputs : object
        What the future holds in the end.
    """

    def __init__(self, handle: int, finish: Callable[[Any], object] | None, outputs: Any) -> None:
        super().__init__()
        self._handle = handle
        self._finish = finish
        self._outputs = outputs
        self._lock = threading.Lock()
        self._done = False
        self._error: BaseException | None = None
        self._future: torch.futures.Future | None = None

    def _end(self) -> None:
        with self._lock:
            if self._done:
                return
            try:
                result = operations.synchronize(self._handle)
                if self._finish is not None:
                    self._finish(result)
            except BaseException as error:  # noqa: BLE001 (kept for whoever waits)
                self._error = error
            self._done = True

    def wait(self, timeout: Any = None) -> bool:
        """Wait; raise what went wrong. The engine's own limits hold, not `timeout`."""
        del timeout
        self._end()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Tell whether waiting would return at once."""
        return self._done or operations.poll(self._handle)

    def is_success(self) -> bool:
        """Tell whether it is done and nothing went wrong."""
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
            _finisher.add(self, trigger)
        return self._future


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


_finisher = _Finisher()
# Registered before the engine's own hook, so it runs after it: what was under way has ended with an error by then.
atexit.register(_finisher.stop)
