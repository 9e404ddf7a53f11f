"""Servers that processes of a job meet at, for code that starts the processes itself."""

from __future__ import annotations

import hmac
import http.server
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from horovod import _roda
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.common.util.network import BasicService
from horovod.runner.http import ensure_secret
from horovod.runner.http.http_client import DIGEST_HEADER, digest
from horovod.runner.util import network
from horovod.runner.util.threads import in_thread

_ANY = "0.0.0.0"  # noqa: S104 (who is to come is not known)
_MOST_BYTES = 1 << 26  # of a value
_STRANGER_SECONDS = 10.0


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = _STRANGER_SECONDS

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        proof = digest(self.server.secret, f"answer to {self.command}", self.path, body)
        self.send_header(DIGEST_HEADER, proof)
        self.end_headers()
        self.wfile.write(body)

    def _is_proved(self, body: bytes) -> bool:
        proof = digest(self.server.secret, self.command, self.path, body)
        if hmac.compare_digest(self.headers.get(DIGEST_HEADER, "").encode(), proof.encode()):
            return True
        self.send_error(HTTPStatus.FORBIDDEN, "not of this job")
        return False

    def do_GET(self) -> None:  # noqa: N802 (the name that is called)
        """Hand out a value."""
        if self._is_proved(b""):
            with self.server.lock:
                value = self.server.values.get(self.path)
            self._answer(HTTPStatus.NOT_FOUND) if value is None else self._answer(HTTPStatus.OK, value)

    def do_PUT(self) -> None:  # noqa: N802
        """Take a value."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _MOST_BYTES:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(int(length))
        if self._is_proved(body):
            with self.server.lock:
                self.server.values[self.path] = body
            self._answer(HTTPStatus.OK)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that is given)
        """Say nothing on the user's terminal."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.lock = threading.Lock()
        self.values: dict[str, bytes] = {}  # by path
        super().__init__((_ANY, 0), _Handler)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of strangers that hung up."""


class KVStoreServer:
    """Keeps values by scope and key, for processes that know the job's secret.

    Parameters
    ----------
    verbose : int
        Of no effect.
    """

    def __init__(self, verbose: int = 0) -> None:
        del verbose
        self._server: _Server | None = None

    def start_server(self) -> int:
        """Start, and return the port."""
        self._server = _Server(ensure_secret())
        in_thread(self._server.serve_forever, name="horovod-kvstore")
        return int(self._server.server_address[1])

    def shutdown_server(self) -> None:
        """Stop, and forget the values."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


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
