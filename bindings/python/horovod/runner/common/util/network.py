"""Small services between the processes of a job: messages are pickled objects, each proved by the job's secret.

Our own launcher uses none of them: they are here for code that builds on Horovod's.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import socketserver
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import cloudpickle
import psutil

from horovod.runner.util.threads import execute_function_multithreaded, in_thread

_LENGTH = struct.Struct("i")
_MOST_BYTES = 1 << 28  # a message that says to be longer is none
_CHUNK = 1 << 20
_STRANGER_SECONDS = 10.0  # for a message, once it has begun

Addresses = dict[str, list[tuple[str, int]]]  # by interface


class PingRequest:
    """Asks a service for its name."""


class PingResponse:
    """A service's name, and the address from which it saw the question come."""

    def __init__(self, service_name: str, source_address: str) -> None:
        self.service_name = service_name
        self.source_address = source_address


class AckResponse:
    """It has been done, and there is nothing else to say."""


class AckStreamResponse(AckResponse):
    """What was asked for follows: pieces of text, each a message, and None behind the last."""


class NoValidAddressesFound(Exception):
    """A service is at none of the addresses that were given."""


class StreamBrokenError(RuntimeError):
    """A stream ended before its end; it is not asked for again."""


class Wire:
    """Writes and reads messages: HMAC-SHA256 of the body (32 bytes), its length (4 bytes, native order), the body.

    Parameters
    ----------
    key : bytes
        The job's secret. Who knows it may have any code run here: bodies are pickles.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, obj: Any, wfile: BinaryIO) -> None:
        """Write one message."""
        body = cloudpickle.dumps(obj)
        wfile.write(self._digest(body) + _LENGTH.pack(len(body)) + body)
        wfile.flush()

    def read(self, rfile: BinaryIO) -> Any:
        """Read one message.

        Raises
        ------
        EOFError
            When there is none, or not all of one.
        ConnectionError
            When it was not made with the secret, or says to be longer than 256 MiB. It is not unpickled then.
        """
        digest = self._take(rfile, hashlib.sha256().digest_size)
        (length,) = _LENGTH.unpack(self._take(rfile, _LENGTH.size))
        if not 0 <= length <= _MOST_BYTES:
            raise ConnectionError(f"a message says to have {length} bytes; at most {_MOST_BYTES} are taken")
        body = self._take(rfile, length)
        if not hmac.compare_digest(digest, self._digest(body)):
            raise ConnectionError("Security error: digest did not match the message. Both ends need the same secret.")
        return cloudpickle.loads(body)

    def _digest(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")

    @staticmethod
    def _take(rfile: BinaryIO, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = rfile.read(min(count - len(data), _CHUNK))
            if not chunk:
                raise EOFError(f"the connection ended after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    service: BasicService


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = _STRANGER_SECONDS

    def handle(self) -> None:
        # A stranger, or a peer that is gone, is no reason for words on the user's terminal.
        with contextlib.suppress(OSError, EOFError):
            wire = self.server.service._wire
            request = wire.read(self.rfile)
            self.connection.settimeout(None)  # it is one of ours, and its answer may take long
            answer = self.server.service._handle(request, self.client_address)
            answer, stream = answer if isinstance(answer, tuple) else (answer, None)
            wire.write(answer, self.wfile)
            while stream is not None:
                piece = stream.read()
                wire.write(piece, self.wfile)
                stream = None if piece is None else stream


class BasicService:
    """Answers requests on a port of this host, each in a thread of its own. Subclasses say what to answer.

    Parameters
    ----------
    service_name : str
        Tells services apart that clients might confuse.
    key : bytes
        The job's secret.
    nics : iterable of str, optional
        Interfaces to name in :meth:`addresses`; by default all that are up.
    """

    def __init__(self, service_name: str, key: bytes, nics: Iterable[str] | None = None) -> None:
        self._service_name = service_name
        self._wire = Wire(key)
        self._nics = set(nics) if nics else None
        self._server = _Server(("0.0.0.0", 0), _Handler)  # noqa: S104 (who is to come is not known)
        self._server.service = self
        self._thread = in_thread(self._server.serve_forever, name=service_name)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        """Return the answer to a request; subclasses ask this one for those that they don't know.

        Where the answer is an :class:`AckStreamResponse`, it is returned in a pair with a stream, whose ``read()``
        waits for text, and returns None at its end.
        """
        if isinstance(req, PingRequest):
            return PingResponse(self._service_name, client_address[0])
        raise NotImplementedError(f"{self._service_name} has no answer to {type(req).__name__}")

    def get_port(self) -> int:
        """Return the port."""
        return int(self._server.server_address[1])

    def addresses(self) -> Addresses:
        """Return where the service is, by interface."""
        states = psutil.net_if_stats()
        found = {
            nic: [(entry.address, self.get_port()) for entry in entries if entry.family == socket.AF_INET]
            for nic, entries in psutil.net_if_addrs().items()
            if nic in states and states[nic].isup and (self._nics is None or nic in self._nics)
        }
        return {nic: places for nic, places in found.items() if places}

    def shutdown(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


class BasicClient:
    """Asks a service.

    Parameters
    ----------
    service_name : str
        The service's.
    addresses : mapping
        What its :meth:`BasicService.addresses` returned. Those at which it is found are kept.
    key : bytes
        The job's secret.
    verbose : int
        Of no effect.
    match_intf : bool
        Keep only addresses that this host reaches from an interface of the same name.
    probe_timeout : float
        Seconds for finding the service.
    attempts : int
        How often an address is tried.

    Raises
    ------
    NoValidAddressesFound
        When the service is at none of the addresses.
    """

    def __init__(
        self,
        service_name: str,
        addresses: Mapping[str, Sequence[tuple[str, int]]],
        key: bytes,
        verbose: int = 0,
        match_intf: bool = False,
        probe_timeout: float = 20,
        attempts: int = 3,
    ) -> None:
        del verbose
        self._service_name = service_name
        self._wire = Wire(key)
        self._match_intf, self._probe_timeout, self._attempts = match_intf, probe_timeout, attempts
        self._addresses = self._probe(addresses)
        if not self._addresses:
            raise NoValidAddressesFound(
                f"Horovod was unable to connect to {service_name} on any of these addresses: {dict(addresses)}. Is one "
                "of them reachable from this host, and do both ends have the same secret?"
            )

    def addresses(self) -> Addresses:
        """Return where the service was found, by interface."""
        return self._addresses

    def _probe(self, addresses: Mapping[str, Sequence[tuple[str, int]]]) -> Addresses:
        places = [(nic, tuple(place)) for nic, list_ in addresses.items() for place in list_]
        answers = execute_function_multithreaded(self._is_there, places) or {}
        found: Addresses = {}
        for (nic, place), is_there in zip(places, (answers[i] for i in range(len(places)))):
            if is_there:
                found.setdefault(nic, []).append(place)
        return found

    def _is_there(self, nic: str, place: tuple[str, int]) -> bool:
        for _ in range(self._attempts):
            with contextlib.suppress(OSError, EOFError):
                answer = self._ask(place, PingRequest(), self._probe_timeout / self._attempts)
                if getattr(answer, "service_name", None) != self._service_name:
                    return False
                own = [entry.address for entry in psutil.net_if_addrs().get(nic, [])]
                return not self._match_intf or answer.source_address in own
        return False

    def _ask(self, place: tuple[str, int], req: Any, connect_timeout: float | None, stream: Any = None) -> Any:
        with socket.create_connection(place, connect_timeout) as connection:
            if not isinstance(req, PingRequest):
                connection.settimeout(None)
            with connection.makefile("rwb") as wires:
                self._wire.write(req, wires)
                answer = self._wire.read(wires)
                if isinstance(answer, AckStreamResponse):
                    self._take_stream(wires, stream)
                return answer

    def _take_stream(self, wires: BinaryIO, stream: Any) -> None:
        try:
            while (piece := self._wire.read(wires)) is not None:
                if stream is not None:
                    stream.write(piece)
                    stream.flush()
        except (OSError, EOFError) as error:
            raise StreamBrokenError(f"{self._service_name} hung up in the middle of a stream: {error}") from error

    def _send(self, req: Any, stream: Any = None) -> Any:
        """Return the service's answer; text that follows it is written to `stream`, up to its end.

        Raises
        ------
        OSError, EOFError
            When it can't be asked any more, or hung up on the question.
        StreamBrokenError
            When it hung up in the middle of a stream.
        """
        error: Exception = NoValidAddressesFound(self._service_name)
        for _ in range(self._attempts):
            for places in self._addresses.values():
                for place in places:
                    try:
                        return self._ask(place, req, self._probe_timeout, stream)
                    except (OSError, EOFError) as failure:
                        error = failure
        raise error
