"""How a worker learns that the hosts of its elastic job changed."""

from __future__ import annotations

import threading
from typing import Protocol


class HostUpdateResult:
    """What a change of the hosts did: flags, joined by ``|`` when several changes are reported as one."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class Listener(Protocol):
    """What is told of changes: every ``State``."""

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Take note of a change; called on any thread."""


class WorkerNotificationManager:
    """Hands notices on to the states that are in use. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()

    def init(self) -> None:
        """Get ready for notices. Nothing to do: whoever receives them calls :meth:`handle_hosts_updated`."""

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
