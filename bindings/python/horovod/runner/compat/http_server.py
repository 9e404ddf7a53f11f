"""Servers that processes of a job meet at, for code that starts the processes itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod import _roda
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.compat.http_client import STORE_NAME, GetRequest, PutRequest
from horovod.runner.compat.network import BasicService
from horovod.runner.compat.secret import ensure_secret
from horovod.runner.util import network


class _Store(BasicService):
    def __init__(self, key: bytes) -> None:
        self._values: dict[tuple[str, str], bytes] = {}
        super().__init__(STORE_NAME, key)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if not isinstance(req, (PutRequest, GetRequest)):
            return super()._handle(req, client_address)
        with self._changed:
            if isinstance(req, PutRequest):
                self._values[req.scope, req.key] = req.value
            return self._values.get((req.scope, req.key))


class KVStoreServer:
    """Keeps values by scope and key, for processes that know the job's secret.

    Parameters
    ----------
    verbose : int
        Of no effect.
    """

    def __init__(self, verbose: int = 0) -> None:
        del verbose
        self._store: _Store | None = None

    def start_server(self) -> int:
        """Start, and return the port."""
        self._store = _Store(ensure_secret())
        return self._store.get_port()

    def shutdown_server(self) -> None:
        """Stop, and forget the values."""
        if self._store is not None:
            self._store.shutdown()
            self._store = None


class RendezvousServer:
    """The engine's rendezvous.

    Processes find it by ``HOROVOD_GLOO_RENDEZVOUS_ADDR`` and ``_PORT``, and their numbers in the variables that
    :func:`horovod.runner.gloo_run.create_slot_env_vars` makes. They need ``_HOROVOD_SECRET_KEY`` as this process has it
    after :meth:`start`; those that it starts inherit it.

    Parameters
    ----------
    verbose : int
        Of no effect.
    """

    def __init__(self, verbose: int = 0) -> None:
        del verbose
        self._server: _roda.RendezvousServer | None = None
        self._workers: BasicService | None = None

    def start(self, handler_cls: Callable[[bytes], BasicService] | None = None) -> int:
        """Start, and return the port: that of an elastic job's, with what ``create_rendezvous_handler`` returns."""
        if handler_cls is not None:
            self._workers = handler_cls(ensure_secret())
            return self._workers.get_port()
        self._server = _roda.RendezvousServer(network.any_address(), 0, ensure_secret())
        return int(self._server.port)

    def init(self, host_alloc_plan: Sequence[SlotInfo]) -> None:
        """Take a plan, which must number its ranks from 0 on; processes are told their numbers by variables."""
        ranks = sorted(slot.rank for slot in host_alloc_plan)
        if ranks != list(range(len(ranks))) or any(slot.size != len(ranks) for slot in host_alloc_plan):
            raise ValueError(f"the plan is none of {len(ranks)} ranks: {list(host_alloc_plan)}")

    def stop(self) -> None:
        """Stop."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None
