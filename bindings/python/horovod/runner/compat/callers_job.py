"""An elastic job whose workers the caller starts: the launcher's control of generations, without its agents."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.compat.registration import WorkerStateRegistry
from horovod.runner.elastic.control import Control
from horovod.runner.elastic.generation import Place, Publish, Start, Worker, WorkersFailedError, slots_of
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.gloo_run import ElasticPlaces, create_slot_env_vars
from horovod.runner.util.threads import in_thread

CreateWorker = Callable[[SlotInfo, Sequence[threading.Event]], Any]


@dataclass
class Results:
    """How a job has ended.

    Attributes
    ----------
    worker_results : dict
        By worker, ``host[slot]``: its last status, and when it ended (``time.time()``).
    error_message : str or None
        Why the job ended before its workers did.
    """

    worker_results: dict[str, tuple[int, float]] = field(default_factory=dict)
    error_message: str | None = None


class _Running:
    """A worker from its start to its end. The driver's lock guards it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.end = threading.Event()
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # to it; None: no more
        self.has_line = False  # it listens: it answers for itself
        self.heard = 0  # the number of its last message
        self.generation = 0  # the last that it was given a place in


class CallersJob:
    """Feeds the control from one thread, :meth:`run`; all else may be called from any.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job.
    create_worker : callable
        See :meth:`horovod.runner.compat.driver.ElasticDriver.start`.
    places : ElasticPlaces or None
        Where the engines of workers that are processes meet.
    registry : WorkerStateRegistry
        Is told what becomes of workers.
    """

    def __init__(
        self,
        settings: ElasticSettings,
        create_worker: CreateWorker,
        places: ElasticPlaces | None,
        registry: WorkerStateRegistry,
    ) -> None:
        self._create_worker, self._places, self._registry = create_worker, places, registry
        self._control = Control(settings, self, "horovod")
        self._news: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._is_stopping = threading.Event()
        # The lock of all that other threads look at.
        self._changed = threading.Condition()
        self._running: dict[tuple[str, int], _Running] = {}
        self._slots: dict[tuple[str, int], SlotInfo] = {}  # of the last generation, before the first the likely ones
        self._results = Results()
        self._is_over = False

    def run(self, hosts: dict[str, int], has_begun: threading.Event) -> None:
        """Run the job to its end; the event is set once workers have been started."""
        error: Exception | None = None
        try:
            self._control.hosts_found(hosts)
            while not self._control.membership.is_over:
                self._control.carry_out()
                has_begun.set()
                self._take_in()
                self._control.membership.look(time.monotonic())
            error = self._control.membership.error
        except Exception as failure:  # a fault of ours must not leave callers waiting
            error = failure
        has_begun.set()
        self._is_stopping.set()
        with self._changed:
            if error is not None and not isinstance(error, WorkersFailedError):  # results tell of those
                self._results.error_message = str(error)
            self._is_over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running)
        if self._places is not None:
            self._places.close()

    def hosts_found(self, found: dict[str, int] | str) -> None:
        """Take what ``find_hosts`` posts."""
        self._post(lambda: self._control.hosts_found(found))

    def look(self) -> None:
        """Have the job's thread look for what is to be done."""
        self._post(lambda: None)

    def stop(self, error: Exception | None) -> None:
        """Have the job end, and its workers."""
        self._post(lambda: self._control.membership.stop(error))

    def is_over(self) -> bool:
        """Tell whether the job has ended; workers may be about to."""
        with self._changed:
            return self._is_over

    def wait(self) -> Results:
        """Wait for the end of the job and of all workers."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over and not self._running)
            return self._results

    def slots(self) -> dict[tuple[str, int], SlotInfo]:
        """Return the numbers of the last generation's workers, by (host, slot)."""
        with self._changed:
            return self._slots

    def record_ready(self, host: str, slot: int) -> None:
        """Say for a slot's worker that it waits for a generation; return when it has its place in one, or none ever."""
        with self._changed:
            running = self._running.get((host, slot))
            if running is None:
                return
            number, before = running.worker.number, running.generation
        membership = self._control.membership
        self._registry.record_ready(host, slot)
        self._post(lambda: membership.left(number, True, None, time.monotonic()))
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or running.end.is_set() or running.generation > before)
        self._post(lambda: membership.formed(number, running.generation, time.monotonic()))
        self._post(lambda: membership.synced(number))

    def lines_for(self, host: str, slot: int) -> Any:
        """Return the stream of lines for a slot's worker; LookupError where none was started."""
        with self._changed:
            running = self._running.get((host, slot))
            if running is None:
                raise LookupError(f"there is no worker {host}[{slot}] in this job")
            running.has_line = True
            return SimpleNamespace(read=running.lines.get)

    def hear(self, host: str, slot: int, count: int, line: bytes) -> None:
        """Take a line of a slot's worker, its count-th; one that comes twice counts once."""
        with self._changed:
            running = self._running.get((host, slot))
            if running is None or count <= running.heard:
                return
            running.heard = count
        self._post(lambda: self._control.hear(running.worker.number, line))

    def _post(self, news: Callable[[], Any]) -> None:
        self._news.put(news)

    def _take_in(self) -> None:
        try:
            news = [self._news.get(timeout=self._control.seconds_left())]
        except queue.Empty:
            return
        while not self._news.empty():
            news.append(self._news.get())
        for take in news:
            take()

    def _run_worker(self, running: _Running, info: SlotInfo) -> None:
        worker, status, when, how = running.worker, 1, None, ""
        try:
            result = self._create_worker(info, [self._is_stopping, running.end])
            status, when = result if isinstance(result, tuple) else (result, None)
        except BaseException as error:  # whatever a caller's function raises
            how = f"raised {type(error).__name__}: {error}"
        record = self._registry.record_failure if status else self._registry.record_success
        record(worker.host, worker.slot)
        running.lines.put(None)
        with self._changed:
            self._results.worker_results[worker.name] = (status, time.time() if when is None else when)
            del self._running[worker.host, worker.slot]  # the next one is not started before what follows
            self._changed.notify_all()
        self._post(lambda: self._control.membership.ended(worker.number, status, time.monotonic(), how))

    # --- what is to be done: the hands of the control ---

    def start(self, start: Start) -> None:
        """Have the caller run a worker, in a thread."""
        worker, workers = start.worker, list(self._control.membership.workers.values())
        likely = {(w.host, w.slot): info for w, info in zip(workers, slots_of(workers))}
        running = _Running(worker)
        with self._changed:
            self._running[worker.host, worker.slot] = running
            if self._control.membership.generation == 0:
                self._slots = likely
        # Its slot is what the worker is known by, also where one before it on the host is not used.
        info = replace(likely[worker.host, worker.slot], local_rank=worker.slot)
        in_thread(self._run_worker, (running, info), name=f"horovod-worker {worker.name}")

    def tell(self, worker: Worker, text: str) -> None:
        """Send a worker a line; one that does not listen is answered for."""
        message = json.loads(text)
        with self._changed:
            running = self._running.get((worker.host, worker.slot))
            if running is None or running.worker is not worker:
                return
            running.lines.put(text + "\n")
            if running.has_line:
                return
            if "removed" in message or "refused" in message:
                running.end.set()
                self._changed.notify_all()
        if "ask" in message:
            self._post(lambda: self._control.membership.answered(worker.number, time.monotonic()))

    def end(self, worker: Worker, at_once: bool) -> None:
        """Have the caller end a worker: its function knows how."""
        del at_once
        with self._changed:
            running = self._running.get((worker.host, worker.slot))
            if running is not None and running.worker is worker:
                running.end.set()
                self._changed.notify_all()

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a worker its numbers in a generation."""
        if isinstance(place, Publish):
            self._publish(place)
        if self._places is None or self._places.server is None:
            return create_slot_env_vars(place.slot)
        port = str(self._places.server.port)  # at the address where the worker found us
        return {**self._places.place_of(place), "HOROVOD_GLOO_RENDEZVOUS_PORT": port}

    def retire(self, generation: int, reason: str) -> None:
        """Refuse workers that still come to that generation."""
        if self._places is not None:
            self._places.retire(generation, reason)

    def _publish(self, place: Publish) -> None:
        members = self._control.membership.members
        if place.slot.rank == 0:
            self._registry.reset(len(members))
        with self._changed:
            self._slots = {(w.host, w.slot): info for w, info in zip(members, slots_of(members))}
            running = self._running.get((place.worker.host, place.worker.slot))
            if running is not None:
                running.generation = place.generation
            self._changed.notify_all()
