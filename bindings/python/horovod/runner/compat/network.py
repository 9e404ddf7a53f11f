"""Small services between the processes of a job: who proves the job's secret asks, and messages are pickled objects.

Our own launcher uses none of them: they are here for code that builds on Horovod's.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psutil

from horovod.runner.util.door import Door
from horovod.runner.util.network import addresses as own_addresses, any_address
from horovod.runner.util.threads import execute_function_multithreaded
from horovod.runner.util.wire import PROOF_BYTES, Stream, Wire, ask_for_proof, prove

_REQUEST_SECONDS = 10.0  # for a piece of a request, of who has proved to know the secret

Addresses = dict[str, list[tuple[str, int]]]  # by interface


class PingRequest:
    """Asks a service for its name."""


class PingResponse:
    """A service's name, and the address from which it saw the question come."""

    def __init__(self, service_name: str, source_address: str) -> None:
        self.service_name = service_name
        self.source_address = source_address


class AckResponse:
    """The answer to a request that was carried out, when there is nothing else to say."""


class AckStreamResponse(AckResponse):
    """The answer to a request for a stream, which follows: pieces of text, each a message, and None behind the last."""


class NoValidAddressesFound(Exception):
    """A service is at none of the addresses that were given."""


class StreamBrokenError(RuntimeError):
    """A stream ended before its end; it is not asked for again."""


class BasicService:
    """Answers requests on a port of this host, each in a thread of its own. Subclasses say what to answer.

    Strangers get no thread and send few bytes: see :class:`horovod.runner.util.door.Door`.

    Parameters
    ----------
    service_name : str
        Tells services apart that clients might confuse.
    key : bytes
        The job's secret.
    nics : iterable of str, optional
        Interfaces to name in :meth:`addresses`; by default all that are up.
    """

    _outlast: tuple[type, ...] = ()  # requests whose answers go on after a shutdown

    def __init__(self, service_name: str, key: bytes, nics: Iterable[str] | None = None) -> None:
        self._service_name = service_name
        self._wire = Wire(key)
        self._nics = set(nics) if nics else None
        self._changed = threading.Condition()  # guards what a service knows
        self._is_ending = False  # no request comes any more
        self._under_way: set[threading.Thread] = set()
        self._door = Door(any_address(), lambda: ask_for_proof(key), PROOF_BYTES, service_name, self._admit)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        """Return the answer to a request; subclasses ask this one for those that they don't know.

        Where the answer is an :class:`AckStreamResponse`, it is returned in a pair with a stream, whose ``read()``
        waits for text, and returns None at its end. What waits here for a change of the service must also look for
        ``_is_ending``.
        """
        if isinstance(req, PingRequest):
            return PingResponse(self._service_name, client_address[0])
        raise NotImplementedError(f"{self._service_name} has no answer to {type(req).__name__}")

    def _admit(self, connection: socket.socket, client_address: tuple[str, int]) -> None:
        source = client_address[0].removeprefix("::ffff:"), client_address[1]  # who came by IPv4 to a port of both
        thread = threading.Thread(
            target=self._serve, args=(connection, source), name=f"{self._service_name}: request", daemon=True
        )
        with self._changed:
            self._under_way.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._is_through(thread)
            raise

    def _is_through(self, thread: threading.Thread) -> None:
        with self._changed:
            self._under_way.discard(thread)
            self._changed.notify_all()

    def _serve(self, connection: socket.socket, client_address: tuple[str, int]) -> None:
        try:
            # A peer that is gone is no reason for words on the user's terminal.
            with contextlib.suppress(OSError, EOFError), connection, connection.makefile("rwb") as wires:
                connection.settimeout(_REQUEST_SECONDS)
                request = self._wire.read(wires)
                connection.settimeout(None)  # its answer may take long
                if isinstance(request, self._outlast):
                    self._is_through(threading.current_thread())
                answer = self._handle(request, client_address)
                answer, stream = answer if isinstance(answer, tuple) else (answer, None)
                self._wire.write(answer, wires)
                if stream is not None:
                    self._hand_out(stream, wires)
        finally:
            self._is_through(threading.current_thread())

    def _hand_out(self, stream: Any, wires: Stream) -> None:
        """Write a stream's pieces. They are read to the end, heard or not: who writes them waits for that."""
        is_heard = True
        piece, is_heard = "", True
        while piece is not None:
            piece = stream.read()
            try:
                if is_heard:
                    self._wire.write(piece, wires)
            except OSError:
                is_heard = False

    def get_port(self) -> int:
        """Return the port."""
        return self._door.port

    def addresses(self) -> Addresses:
        """Return where the service is, by interface."""
        states = psutil.net_if_stats()
        found: Addresses = {}
        for nic, address in own_addresses():
            if nic in states and states[nic].isup and (self._nics is None or nic in self._nics):
                found.setdefault(nic, []).append((address, self.get_port()))
        return found

    def shutdown(self) -> None:
        """Take no more requests, and return once those under way are answered."""
        self._door.close()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._under_way - {threading.current_thread()})


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
        self._key, self._wire = key, Wire(key)
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
        places = [(nic, (host, port)) for nic, list_ in addresses.items() for host, port in list_]
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
            prove(connection, self._key, connect_timeout)
            connection.settimeout(connect_timeout if isinstance(req, PingRequest) else None)
            with connection.makefile("rwb") as wires:
                self._wire.write(req, wires)
                answer = self._wire.read(wires)
                if isinstance(answer, AckStreamResponse):
                    self._take_stream(wires, stream)
                return answer

    def _take_stream(self, wires: Stream, stream: Any) -> None:
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
