"""Notices of changed hosts, for a program that drives an elastic job's workers by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from horovod.runner.compat.network import AckResponse, BasicClient, BasicService


@dataclass(frozen=True)
class HostsUpdatedRequest:
    """Tells that the hosts changed at a time, and by flags of ``HostUpdateResult`` how."""

    timestamp: float
    res: int = 0


class Manager(Protocol):
    """A manager is told: a ``WorkerNotificationManager``."""

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Take note of a change."""


class WorkerNotificationService(BasicService):
    """Tells a manager what clients say. Our own workers need none: they have a line to their launcher.

    Parameters
    ----------
    key : bytes
        The job's secret.
    nic : str or iterable of str, optional
        Interfaces to name in ``addresses``; by default all that are up.
    manager : Manager
        Told on a thread of the service's.
    """

    NAME = "worker notification service"

    def __init__(self, key: bytes, nic: str | Iterable[str] | None, manager: Manager) -> None:
        super().__init__(self.NAME, key, [nic] if isinstance(nic, str) else nic)
        self._manager = manager

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if isinstance(req, HostsUpdatedRequest):
            self._manager.handle_hosts_updated(req.timestamp, req.res)
            return AckResponse()
        return super()._handle(req, client_address)


class WorkerNotificationClient(BasicClient):
    """Asks a :class:`WorkerNotificationService`."""

    def __init__(
        self, addresses: Mapping[str, Sequence[tuple[str, int]]], key: bytes, verbose: int, match_intf: bool = False
    ) -> None:
        super().__init__(WorkerNotificationService.NAME, addresses, key, verbose, match_intf)

    def notify_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Tell that the hosts changed; returns when the service's manager knows."""
        self._send(HostsUpdatedRequest(timestamp, update_res))
