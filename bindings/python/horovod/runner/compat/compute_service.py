"""Where the dispatchers and workers of a data service register, and the ranks that read from it find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.compat.network import AckResponse, BasicClient, BasicService

_NAME = "Compute service"


@dataclass(frozen=True)
class RegisterDispatcherRequest:
    """A dispatcher is there."""

    dispatcher_id: int
    dispatcher_address: str


@dataclass(frozen=True)
class WaitForDispatcherRegistrationRequest:
    """Asks where a dispatcher is."""

    dispatcher_id: int
    timeout: float


@dataclass(frozen=True)
class RegisterDispatcherWorkerRequest:
    """A worker of a dispatcher is there."""

    dispatcher_id: int
    worker_id: int


@dataclass(frozen=True)
class WaitForDispatcherWorkerRegistrationRequest:
    """Asks whether all workers of a dispatcher are there."""

    dispatcher_id: int
    timeout: float


@dataclass(frozen=True)
class ShutdownRequest:
    """Nobody reads any more."""


@dataclass(frozen=True)
class WaitForShutdownRequest:
    """Asks whether nobody reads any more."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question, or the error that asking ended with."""

    value: Any = None
    error: Exception | None = None


class ComputeService(BasicService):
    """Knows the dispatchers and workers of a data service.

    Parameters
    ----------
    dispatchers, workers_per_dispatcher : int
        How many there are to be.
    key : bytes
        The job's secret.
    nics : iterable of str, optional
        Interfaces to name.

    Raises
    ------
    ValueError
        For less than one of either.
    """

    def __init__(
        self, dispatchers: int, workers_per_dispatcher: int, key: bytes, nics: Iterable[str] | None = None
    ) -> None:
        if dispatchers < 1 or workers_per_dispatcher < 1:
            raise ValueError(
                f"There must be at least one dispatcher and one worker of each: {dispatchers}, {workers_per_dispatcher}"
            )
        self._addresses: dict[int, str] = {}
        self._workers: dict[int, set[int]] = {number: set() for number in range(dispatchers)}
        self._workers_per_dispatcher = workers_per_dispatcher
        self._is_shut_down = False
        super().__init__(_NAME, key, nics)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        number = getattr(req, "dispatcher_id", 0)
        if number not in self._workers:
            return Answer(error=IndexError(f"There is no dispatcher {number}: there are {len(self._workers)}"))
        with self._changed:
            if isinstance(req, RegisterDispatcherRequest):
                return self._register(req)
            if isinstance(req, WaitForDispatcherRegistrationRequest):
                return self._wait(
                    lambda: number in self._addresses, req.timeout, f"dispatcher {number}", self._addresses
                )
            if isinstance(req, RegisterDispatcherWorkerRequest):
                self._workers[number].add(req.worker_id)
                self._changed.notify_all()
                return AckResponse()
            if isinstance(req, WaitForDispatcherWorkerRegistrationRequest):
                return self._wait(
                    lambda: len(self._workers[number]) >= self._workers_per_dispatcher,
                    req.timeout,
                    f"the workers of dispatcher {number}",
                )
            if isinstance(req, ShutdownRequest):
                self._is_shut_down = True
                self._changed.notify_all()
                return AckResponse()
            if isinstance(req, WaitForShutdownRequest):
                self._changed.wait_for(lambda: self._is_shut_down or self._is_ending)
                return AckResponse()
        return super()._handle(req, client_address)

    def _register(self, req: RegisterDispatcherRequest) -> Answer:
        known = self._addresses.setdefault(req.dispatcher_id, req.dispatcher_address)
        if known != req.dispatcher_address:
            return Answer(error=ValueError(f"Dispatcher {req.dispatcher_id} is at {known} already"))
        self._changed.notify_all()
        return Answer()

    def _wait(
        self, is_there: Callable[[], bool], timeout: float, what: str, values: Mapping[int, str] | None = None
    ) -> Answer:
        if not self._changed.wait_for(lambda: is_there() or self._is_ending, timeout):
            return Answer(error=TimeoutException(f"Timed out after {timeout:g} seconds waiting for {what}"))
        if not is_there():
            return Answer(error=TimeoutException(f"The data service ended while {what} had not come"))
        return Answer(dict(values or {}))


class ComputeClient(BasicClient):
    """Asks a :class:`ComputeService`; the parameters are those of :class:`BasicClient`."""

    def __init__(
        self, compute_addresses: Mapping[str, Sequence[tuple[str, int]]], key: bytes, verbose: int = 1
    ) -> None:
        super().__init__(_NAME, compute_addresses, key, verbose)

    def _ask_for(self, req: Any) -> Any:
        answer = self._send(req)
        if getattr(answer, "error", None) is not None:
            raise answer.error
        return getattr(answer, "value", None)

    def register_dispatcher(self, dispatcher_id: int, dispatcher_address: str) -> None:
        """Tell where a dispatcher is; IndexError or ValueError for one that is not expected there."""
        self._ask_for(RegisterDispatcherRequest(dispatcher_id, dispatcher_address))

    def wait_for_dispatcher_registration(self, dispatcher_id: int, timeout: float) -> str:
        """Return where a dispatcher is; TimeoutException when it has not come after so many seconds."""
        return str(self._ask_for(WaitForDispatcherRegistrationRequest(dispatcher_id, timeout))[dispatcher_id])

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        """Tell that a worker of a dispatcher is there."""
        self._ask_for(RegisterDispatcherWorkerRequest(dispatcher_id, worker_id))

    def wait_for_dispatcher_worker_registration(self, dispatcher_id: int, timeout: float) -> None:
        """Wait for all workers of a dispatcher; TimeoutException when some have not come after so many seconds."""
        self._ask_for(WaitForDispatcherWorkerRegistrationRequest(dispatcher_id, timeout))

    def shutdown(self) -> None:
        """Tell those that wait for the end that it has come."""
        self._ask_for(ShutdownRequest())

    def wait_for_shutdown(self) -> None:
        """Wait for the end."""
        self._ask_for(WaitForShutdownRequest())
