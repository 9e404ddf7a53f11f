"""An elastic job: agents on hosts that come and go, the workers that they run, and what becomes of them."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from horovod.runner.agent_host import reason
from horovod.runner.boot import framed
from horovod.runner.elastic.control import Control, find_hosts
from horovod.runner.elastic.discovery import HostDiscovery
from horovod.runner.elastic.generation import Place, Publish, Stage, Start, Worker, WorkersFailedError
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.job import (
    Connection,
    HostJob,
    Job,
    JobFailedError,
    JobInterruptedError,
)
from horovod.runner.reach import Reach
from horovod.runner.util.invariant import InvariantError
from horovod.runner.util.threads import in_thread

_MOST_OF_LINE = 1 << 22  # bytes that a worker says at once


class ElasticJob(Job):
    """Runs a command or function as workers that may come and go.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job.
    command : sequence of str
        What every worker executes.
    environment : dict
        Variables that all workers get.
    secret : bytes
        The job's.
    is_local : callable
        Whether a host is this one.
    environment_of : callable
        ``environment_of(hostname)``: variables of a host's workers.
    reach_for : callable
        ``reach_for(hostname)``: the addresses that a host tries.
    reached_at : callable
        ``reached_at(hostname, address)``: takes note of the one that answers there.
    place_of : callable
        ``place_of(action)``: the variables that tell a worker its place, as a `Place` has it.
    retire : callable
        ``retire(generation, reason)``: refuses workers that still come to that generation.
    function : bytes, optional
        A pickled call for ``horovod.runner.run_task``.
    """

    attempts = 3  # at a host, before it counts as lost
    speaker = "horovodrun"  # stands before what the user is told

    def __init__(
        self,
        settings: ElasticSettings,
        command: Sequence[str],
        environment: dict[str, str],
        secret: bytes,
        *,
        is_local: Callable[[str], bool],
        environment_of: Callable[[str], dict[str, str]],
        reach_for: Callable[[str], Reach | None],
        reached_at: Callable[[str, str], None],
        place_of: Callable[[Place], dict[str, str]],
        retire: Callable[[int, str], None],
        function: bytes | None = None,
    ) -> None:
        super().__init__(settings, [], command, environment, secret, function)
        self._spec.update(elastic=True, slots=[])
        self._discovery: HostDiscovery = settings.discovery  # type: ignore[assignment]
        self._is_local, self._environment_of = is_local, environment_of
        self._reach_for, self._reached_at = reach_for, reached_at
        self._place_of, self.retire = place_of, retire
        self._control = Control(settings, self, self.speaker, self._say)
        self._membership = self._control.membership
        self._by_host: dict[str, Connection | None] = {}  # None: is being connected to
        self._waiting_starts: dict[str, list[Start]] = {}
        self._astray: set[str] = set()  # hosts whose agent ends, because it finds no way here
        self._begun: dict[int, bytes] = {}  # by number: the begin of a message
        self._failed: dict[int, tuple[Worker, int]] = {}  # by number, with the status
        self._news: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._has_ended = threading.Event()
        self._connecting: list[threading.Thread] = []

    def run(self) -> None:
        """Run to the end.

        Raises
        ------
        JobFailedError
            When workers ended with a non-zero status and the job could not go on.
        JobInterruptedError
            When SIGINT, SIGTERM or SIGHUP came.
        DiscoveryError
            When the hosts could not be found out at the start.
        TimeoutException, RuntimeError
            When there were too few slots for too long, or the limit of resets was reached; the cause is the
            JobFailedError of the worker that failed last, if any did.
        """
        hosts = self._discovery.find_available_hosts_and_slots()
        self._begin()
        finding = (self._discovery, hosts, lambda found: self._post("hosts", found), self._has_ended)
        finder = threading.Thread(target=find_hosts, args=finding, name="horovod-discovery", daemon=True)
        try:
            self._membership.hosts_found(hosts, time.monotonic())
            finder.start()
            while not self._has_pumped():
                pass
        finally:
            self._has_ended.set()
            for thread in self._connecting:
                thread.join()
            while not self._news.empty():
                kind, *news = self._news.get()
                self._connections += news if kind == "connected" else []
            self._hang_up()
        if self._signals.arrived:
            raise JobInterruptedError(*self._signals.arrived)
        error = self._membership.error
        if isinstance(error, WorkersFailedError):
            raise self._failure_of(error)
        if error is not None:
            raise error from error.__cause__ or (self._failure_of_worker(self._culprit()) if self._failed else None)
        self.results = self._control.by_rank(self.results)

    # --- threads ---

    def _post(self, *news: Any) -> None:
        """Hand something to the loop; any thread."""
        self._news.put(news)
        self._waker.wake()

    def _connect(self, host: HostJob) -> None:
        error: str | None = ""
        for _ in range(self.attempts):
            if self._is_called_off():
                break
            try:
                connection = self._start_agent(host)
            except OSError as failure:
                error = reason(failure)
                break
            error = self._await_hello(connection, time.monotonic() + self._settings.start_timeout)
            if error is None:
                return self._post("connected", connection)
        return self._post("unreachable", host.hostname, error)

    def _is_called_off(self) -> bool:
        return super()._is_called_off() or self._has_ended.is_set()

    # --- the loop ---

    def _has_pumped(self) -> bool:
        """Go to the end of the job, or to a fault of the membership, which ends it as any error of its does."""
        try:
            self._pump()
        except InvariantError as error:
            self._membership.stop(error)
            return False
        return True

    def _pump(self) -> None:
        while True:
            if not self._stopping:
                self._control.carry_out()
            if self._membership.is_over and not self._stopping:
                self._stop(b"T")
            if self._stopping and (not any(self._by_host.values()) or self._is_late(self._agents_end)):
                return
            self._take_in(None if self._stopping else self._control.seconds_left())
            if self._printer.is_full:
                continue  # nothing is heard of the workers: they are not late
            while not self._news.empty():
                self._take(*self._news.get())
            self._membership.look(time.monotonic())

    def _take(self, kind: str, *news: Any) -> None:
        if kind == "hosts":
            self._control.hosts_found(news[0])
        elif kind == "connected":
            self._connected(news[0])
        elif kind == "not started":
            self._membership.ended(news[0], 0, time.monotonic())
        else:
            del self._by_host[news[0]]
            self._waiting_starts.pop(news[0], None)
            self._membership.host_lost(news[0], f"could not be started: {news[1]}", time.monotonic())

    def _connected(self, connection: Connection) -> None:
        host = connection.host.hostname
        self._connections.append(connection)
        self._by_host[host] = connection
        self._send_spec(connection)
        for start in self._waiting_starts.pop(host, []):
            self.start(start)
        if self._stopping:
            connection.send(b"T")

    def _handle(self, kind: bytes, rank: int, payload: bytes) -> None:
        """Take a frame of a worker: agents know it by its number, where other jobs have ranks."""
        if kind == b"a":
            host, _, address = payload.decode(errors="replace").partition(" ")
            return self._reached_at(host, address)
        if kind == b"u":
            return self._astray.add(payload.decode(errors="replace"))
        if kind != b"m":
            return super()._handle(kind, rank, payload)
        *lines, rest = (self._begun.get(rank, b"") + payload).split(b"\n")
        if len(rest) > _MOST_OF_LINE:  # what is cut says nothing
            lines, rest = [*lines, rest], b""
        self._begun[rank] = rest
        for line in lines:
            self._control.hear(rank, line)
        return None

    def _last_words_begin(self) -> None:
        """Let workers go on for now: the membership says which."""

    def _rank_ended(self, rank: int, status: int) -> None:
        worker = self._membership.workers.get(rank)
        # A worker that this launcher ended has not failed.
        if worker is not None and status != 0 and worker.stage != Stage.REMOVED and not self._membership.is_over:
            self._failed[rank] = (worker, status)
        self._membership.ended(rank, status, time.monotonic(), self._how_it_ended(rank, status))

    def _how_it_ended(self, rank: int, status: int) -> str:
        """Return what a worker has told of the error that ended it; "" where it told nothing, or ended well."""
        if status <= 0 or not self._blame.has_told(rank):
            return ""
        error, _ = self._blame.words_on(rank)
        return error if error.startswith("ended with") else f"ended with status {status}: {error}"

    def _failure_of(self, error: WorkersFailedError) -> JobFailedError:
        if not self._failed:  # the connection to its host was lost
            return JobFailedError(error.name, error.status)
        return self._failure_of_worker(self._culprit())

    def _culprit(self) -> int:
        """Return the worker that failed last for an error of its own, where one did; else the last."""
        own = [number for number in self._failed if not self._blame.is_victim(number)]
        return (own or list(self._failed))[-1]

    def _failure_of_worker(self, number: int) -> JobFailedError:
        worker, status = self._failed[number]
        return self._failure(number, status, worker.host)

    def _agent_ended(self, connection: Connection) -> None:
        host = connection.host.hostname
        del self._by_host[host]
        how = f"was lost: the connection to host {host} ended"
        if host in self._astray and connection.host.reach is not None:
            self._astray.discard(host)
            how = f"could not be started: {connection.host.reach.failure()}"
        if not self._stopping:
            self._membership.host_lost(host, how, time.monotonic())

    # --- what is to be done: the hands of the control ---

    def start(self, start: Start) -> None:
        """Have a worker's process started by its host's agent, which is started first."""
        worker = start.worker
        if worker.host not in self._by_host:
            self._by_host[worker.host] = None
            host = HostJob(worker.host, self._is_local(worker.host), [], self._reach_for(worker.host))
            self._connecting = [thread for thread in self._connecting if thread.is_alive()]
            self._connecting.append(in_thread(self._connect, (host,), name="horovod-connect"))
        if self._by_host[worker.host] is None:
            self._waiting_starts.setdefault(worker.host, []).append(start)
            return
        variables = {**self._environment_of(worker.host), **self.place_of(start)}
        slot = {"rank": worker.number, "environment": variables, "sharers": start.sharers}
        self._order(worker, {"start": slot})

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a worker its numbers; its output goes under its new rank from now on."""
        if isinstance(place, Publish):
            self._output.rename(place.worker.number, place.slot.rank)
        return self._place_of(place)

    def tell(self, worker: Worker, text: str) -> None:
        """Have a line sent to a worker."""
        self._order(worker, {"tell": worker.number, "text": text})

    def end(self, worker: Worker, at_once: bool) -> None:
        """Have a worker's process ended; one that waits for its host's agent does not start."""
        waiting = self._waiting_starts.get(worker.host, [])
        staying = [start for start in waiting if start.worker is not worker]
        if len(staying) < len(waiting):
            self._waiting_starts[worker.host] = staying
            return self._post("not started", worker.number)
        return self._order(worker, {"end": worker.number, "signal": 9 if at_once else 15})

    def _order(self, worker: Worker, order: dict[str, Any]) -> None:
        connection = self._by_host.get(worker.host)
        if connection is not None:
            connection.send_all(b"J" + framed(json.dumps(order)))

    def _name_of(self, rank: int) -> int | str:
        """Return a worker's name: ranks change, and several workers may have one in turn."""
        worker = self._membership.workers.get(rank) or self._failed.get(rank, (None, 0))[0]
        return rank if worker is None else worker.name
