"""The line between an :class:`horovod.runner.compat.driver.ElasticDriver` and a worker that its caller started."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from horovod.runner.compat.network import AckResponse, AckStreamResponse, BasicClient, BasicService
from horovod.runner.compat.secret import get_secret
from horovod.runner.util.threads import in_thread

_NAME = "elastic driver"


@dataclass(frozen=True)
class ListenRequest:
    """Asks for the lines for a slot's worker: they are streamed."""

    host: str
    slot: int


@dataclass(frozen=True)
class TellRequest:
    """A line of a slot's worker, and its number, from 1 on: it may come twice."""

    host: str
    slot: int
    number: int
    line: bytes


class _WorkerService(BasicService):
    _outlast = (ListenRequest,)  # a worker's lines end with the worker

    def __init__(self, driver: Any, key: bytes) -> None:
        self._driver = driver
        driver.serve(key)
        super().__init__(_NAME, key)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if isinstance(req, ListenRequest):
            return AckStreamResponse(), self._driver.job().lines_for(req.host, req.slot)
        if isinstance(req, TellRequest):
            self._driver.job().hear(req.host, req.slot, req.number, req.line)
            return AckResponse()
        return super()._handle(req, client_address)


def create_rendezvous_handler(driver: Any) -> Callable[[bytes], BasicService]:
    """Return what ``RendezvousServer.start`` takes so that workers of the driver's job find it there.

    Its port is all that they need to know: the line to the driver tells them where their engines meet. Paths of
    Horovod's HTTP handler, such as ``/rank_and_size``, are not there: ``driver.get_slot_info`` answers that.
    """
    return functools.partial(_WorkerService, driver)


# --- the worker's side ---


class _Writer:
    """The socket that a stream of text is written to."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to

    def write(self, text: str) -> None:
        self._to.sendall(text.encode())

    def flush(self) -> None:
        """Nothing is held back."""


def connect() -> int:
    """Tie this process to the driver that its variables name, and return the descriptor for its ``Channel``.

    Raises
    ------
    NoValidAddressesFound
        When there is no such driver, or it has another secret.
    """
    place = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
    own = (os.environ["HOROVOD_HOSTNAME"], int(os.environ["HOROVOD_LOCAL_RANK"]))
    client = BasicClient(_NAME, {"": [place]}, get_secret())
    ours, theirs = socket.socketpair()
    in_thread(_receive, (client, own, ours), name="horovod-elastic-receive")
    in_thread(_send, (client, own, ours), name="horovod-elastic-send")
    return theirs.detach()


def _receive(client: BasicClient, own: tuple[str, int], ours: socket.socket) -> None:
    with contextlib.suppress(OSError, EOFError, RuntimeError):
        client._send(ListenRequest(*own), _Writer(ours))
    with contextlib.suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)  # the driver is gone: whoever waits for its word is told


def _send(client: BasicClient, own: tuple[str, int], ours: socket.socket) -> None:
    with contextlib.suppress(OSError, EOFError), ours.makefile("rb") as lines:
        for number, line in enumerate(lines, 1):
            client._send(TellRequest(*own, number, line))
