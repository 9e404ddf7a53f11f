"""A worker of an elastic job: how it comes into a generation, and how it learns that the hosts changed."""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from horovod.common.exceptions import HorovodInternalError
from horovod.common.model import Fault, flag, listed, mapped, modelled, number, of, parse, text, whole
from horovod.runner.common.util.secret import HOROVOD_SECRET_KEY
from horovod.runner.util.threads import signals_blocked

_FD_VARIABLE = "_RODA_ELASTIC_FD"
# The variables of a worker that an ElasticDriver's caller started; the launcher's own workers get a descriptor.
_DRIVEN = ("HOROVOD_ELASTIC", "HOROVOD_GLOO_RENDEZVOUS_PORT", HOROVOD_SECRET_KEY)
TELLS_STRAGGLERS = "_RODA_TELLS_STRAGGLERS"  # in the environment of workers whose launcher replaces slow hosts
_MOST_OF_TEXT = 1 << 16  # of an error, that the launcher is told
_CUT_OFF = ("cannot reach the rendezvous", "lost the rendezvous")  # how the reason of one without a way there begins


class HostUpdateResult:
    """The effect of a change of the hosts: flags, joined by ``|`` when several changes are reported as one."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


_NUMBER, _VARIABLES = whole(0, 2**63 - 1), mapped(text())


@dataclass(frozen=True)
class _Order:
    """A message of the launcher: which hosts there are, a question, or this worker's place, or that it has none."""

    generation: int = of(_NUMBER, default=0)
    time: float = of(number(), default=0.0)
    hosts: int | None = of(whole(0, 3), default=None)
    leaving: list[int] = of(listed(whole(0, 2**31 - 1), 1 << 20), default_factory=list)
    ask: int | None = of(_NUMBER, default=None)
    removed: str | None = of(text(), default=None)
    refused: str | None = of(text(), default=None)
    environment: dict[str, str] = of(_VARIABLES, default_factory=dict)
    place: dict[str, str] | None = of(_VARIABLES, default=None)
    sync: bool = of(flag(), default=True)


_ORDER = modelled(_Order)


class Channel:
    """Ties this process to the launcher of its elastic job. A line of JSON each way is a message.

    Parameters
    ----------
    descriptor : int
        Of a stream socket.
    on_hosts_updated : callable
        ``on_hosts_updated(generation, timestamp, flags)``, called on a thread of the channel's.
    """

    def __init__(self, descriptor: int, on_hosts_updated: Callable[[int, float, int], None]) -> None:
        self.generation = 0
        self.syncs = True  # the generation begins with a synchronisation
        self.is_guest = False  # alone while it sets up, and has the numbers that it would get
        self.leaving: list[int] = []  # ranks that the last change of the hosts removes, as far as it is known
        self._on_hosts_updated = on_hosts_updated
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._leaving: dict[str, Any] = {"sync": True, "lost": None, "may_go": None, "ready": False}
        with signals_blocked():
            threading.Thread(target=self._read, name="horovod-elastic", daemon=True).start()

    def leave(self, sync: bool, lost_rank: int | None, may_go: Sequence[int] | None) -> None:
        """Note why the generation is left: tell it with the next :meth:`join`."""
        self._leaving = {"sync": sync, "lost": lost_rank, "may_go": may_go, "ready": True}

    def tell(self, **message: Any) -> None:
        """Send the launcher a message, if it is still there: this process ends with it."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return

    def join(self, start: Callable[[int], None], as_guest: bool) -> None:
        """Become a rank of the next generation, or of the first after it that forms. Blocks.

        Parameters
        ----------
        start : callable
            ``start(generation)`` starts the engine.
        as_guest : bool
            A worker that comes later than the others may begin alone, so that nobody waits while it sets up.

        Raises
        ------
        ValueError
            When the workers can't come together, with the reason.
        SystemExit
            When this worker has no place in the job any more.
        """
        if not as_guest:
            self._leaving["ready"] = True
        self.tell(left=self.generation, **self._leaving)
        while True:
            order = self._orders.get()
            if order.removed is not None:
                print(f"horovod: {order.removed}", file=sys.stderr, flush=True)
                raise SystemExit(0)
            if order.refused is not None:
                raise ValueError(order.refused)
            os.environ.update(order.environment)
            self.is_guest = order.place is not None
            try:
                start(order.generation)
                os.environ.update(order.place or {})
            except HorovodInternalError as error:
                is_cut_off = str(error).startswith(_CUT_OFF)
                lost_rank = int(os.environ["HOROVOD_RANK"]) if is_cut_off else error.lost_rank
                self.tell(failed=order.generation, text=str(error)[:_MOST_OF_TEXT], lost=lost_rank)
                continue
            if self.is_guest:
                return
            self.generation, self.syncs = order.generation, order.sync
            self._leaving = {"sync": True, "lost": None, "may_go": None, "ready": True}
            self.tell(formed=self.generation)
            return

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                try:
                    order: _Order = _ORDER.take(parse(line))
                except Fault as fault:
                    self._orders.put(_Order(refused=f"the process that drives this elastic job said what {fault}"))
                    return
                if order.hosts is not None:
                    self.leaving = order.leaving
                    self._on_hosts_updated(order.generation, order.time, order.hosts)
                elif order.ask is not None:
                    self.tell(lives=order.ask)
                else:
                    self._orders.put(order)
        self._orders.put(_Order(refused="the process that drives this elastic job is gone"))


class Listener(Protocol):
    """A listener is told of changes: every ``State`` is one."""

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Take note of a change; called on any thread."""


class WorkerNotificationManager:
    """Hands notices on to the states that are in use. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._channel: Channel | None = None
        self._owner = 0
        self._is_leaving = False
        self._held: list[tuple[int, float, int]] = []  # what came while a generation was left for the next

    def init(self) -> None:
        """Get ready for notices; without a launcher of elastic jobs nobody sends any."""
        self.channel()

    def channel(self) -> Channel | None:
        """Return what ties this process to the launcher; None in a job that is not elastic, and in a forked child."""
        with self._lock:
            descriptor: str | int | None = os.environ.pop(_FD_VARIABLE, None)
            if descriptor is None and self._channel is None and all(name in os.environ for name in _DRIVEN):
                from horovod.runner.compat.rendezvous import connect  # noqa: PLC0415 (few jobs need it)

                descriptor = connect()
            if descriptor is not None:
                self._channel, self._owner = Channel(int(descriptor), self._on_notice), os.getpid()
            return self._channel if self._owner == os.getpid() else None

    def register_listener(self, listener: Listener) -> None:
        """Tell `listener` of every change from now on."""
        with self._lock:
            self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Tell `listener` no more."""
        with self._lock:
            self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Tell all listeners that the hosts changed at `timestamp`."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)

    # --- from one generation to the next ---

    def is_guest(self) -> bool:
        """Tell whether this worker is not among the others yet."""
        channel = self._channel
        return channel is not None and channel.is_guest and self._owner == os.getpid()

    def leave(self, sync: bool, lost_rank: int | None = None, may_go: Sequence[int] | None = None) -> None:
        """Hold notices from now on, and note why this worker leaves its generation, and which ranks may go for good."""
        with self._lock:
            self._is_leaving = True
        channel = self.channel()
        if channel is not None:
            channel.leave(sync, lost_rank, may_go)

    def resume(self, sync: bool) -> bool:
        """Hand on notices for the new generation that came meanwhile; tell whether all its workers synchronise.

        Parameters
        ----------
        sync : bool
            Whether this worker wants to, which decides in a job that is not elastic.
        """
        channel = self.channel()
        with self._lock:
            held, self._held, self._is_leaving = self._held, [], False
        for generation, timestamp, flags in held:
            if channel is not None and generation == channel.generation:
                self.handle_hosts_updated(timestamp, flags)
        return sync if channel is None else channel.syncs

    def leaving(self) -> list[int]:
        """Return the ranks that the last change of the hosts removes, on the rank that was told."""
        channel = self.channel()
        return [] if channel is None else channel.leaving

    def synced(self) -> None:
        """Tell the launcher that this worker has the job's state."""
        channel = self.channel()
        if channel is not None:
            channel.tell(synced=channel.generation)

    def waits_for(self, rank: int) -> None:
        """Tell the launcher of a rank that the others wait for; rank 0 alone does."""
        channel = self.channel()
        if channel is not None and os.environ.get("HOROVOD_RANK") == "0":
            channel.tell(waits=channel.generation, straggler=rank)

    def _on_notice(self, generation: int, timestamp: float, flags: int) -> None:
        with self._lock:
            if self._is_leaving:
                self._held.append((generation, timestamp, flags))
                return
        self.handle_hosts_updated(timestamp, flags)


notification_manager = WorkerNotificationManager()


def __getattr__(name: str) -> Any:
    if name in {"HostsUpdatedRequest", "WorkerNotificationService", "WorkerNotificationClient"}:
        from horovod.runner.compat import notification  # noqa: PLC0415 (other programs' alone)

        return getattr(notification, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
