"""Where the tasks of a job register, tell where they are, and find out by which interfaces they reach one another.

Our own launcher has agents, which it talks to itself: this is for code that builds on Horovod's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod.runner.common.util.timeout import Timeout, TimeoutException
from horovod.runner.compat.network import AckResponse, Addresses, BasicClient, BasicService


@dataclass(frozen=True)
class RegisterTaskRequest:
    """A task is there."""

    index: int
    task_addresses: Addresses
    host_hash: str


@dataclass(frozen=True)
class RegisterTaskToTaskAddressesRequest:
    """Where another task was found by one that looked for it."""

    index: int
    task_addresses: Addresses


@dataclass(frozen=True)
class AllTaskAddressesRequest:
    """Asks for all that a task said of where it is."""

    index: int


@dataclass(frozen=True)
class AllTaskAddressesResponse:
    """Where a task is."""

    all_task_addresses: Addresses


class BasicDriverService(BasicService):
    """Knows the tasks of a job. Any thread.

    Parameters
    ----------
    num_proc : int
        How many tasks there are to be.
    name : str
        The service's name.
    key : bytes
        The job's secret.
    nics : iterable of str, optional
        Interfaces to name.
    """

    def __init__(self, num_proc: int, name: str, key: bytes, nics: Iterable[str] | None = None) -> None:
        self._num_proc = num_proc
        self._all: dict[int, Addresses] = {}  # by index of task
        self._for_driver: dict[int, Addresses] = {}
        self._for_tasks: dict[int, Addresses] = {}
        self._hosts: dict[int, str] = {}
        super().__init__(name, key, nics)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if isinstance(req, AllTaskAddressesRequest):
            return AllTaskAddressesResponse(self.all_task_addresses(req.index))
        if not isinstance(req, (RegisterTaskRequest, RegisterTaskToTaskAddressesRequest)):
            return super()._handle(req, client_address)
        if not 0 <= req.index < self._num_proc:
            raise ValueError(f"there is no task {req.index}: there are {self._num_proc}")
        with self._changed:
            if isinstance(req, RegisterTaskRequest):
                self._all[req.index] = req.task_addresses
                seen = {nic: [p for p in ps if p[0] == client_address[0]] for nic, ps in req.task_addresses.items()}
                self._for_driver[req.index] = {nic: places for nic, places in seen.items() if places}
                self._hosts[req.index] = req.host_hash
            else:
                self._for_tasks[req.index] = req.task_addresses
            self._changed.notify_all()
        return AckResponse()

    def all_task_addresses(self, index: int) -> Addresses:
        """Return where a task says that it is, by interface; KeyError before it has registered."""
        with self._changed:
            return dict(self._all[index])

    def task_addresses_for_driver(self, index: int) -> Addresses:
        """Return the one of these from which it spoke to the driver."""
        with self._changed:
            return dict(self._for_driver[index])

    def task_addresses_for_tasks(self, index: int) -> Addresses:
        """Return the ones at which another task found it."""
        with self._changed:
            return dict(self._for_tasks[index])

    def task_indices(self) -> set[int]:
        """Return the tasks that have registered."""
        with self._changed:
            return set(self._all)

    def task_index_host_hash(self, index: int) -> str:
        """Return what tells a task's host from others."""
        with self._changed:
            return self._hosts[index]

    def task_host_hash_indices(self) -> dict[str, list[int]]:
        """Return the tasks by host, in the order of their indices."""
        found: dict[str, list[int]] = {}
        with self._changed:
            for index in sorted(self._hosts):
                found.setdefault(self._hosts[index], []).append(index)
        return found

    def get_common_interfaces(self) -> set[str]:
        """Return the interfaces by which each task was found by another; RuntimeError when there are none."""
        with self._changed:
            by_task = {index: set(addresses) for index, addresses in self._for_tasks.items()}
        common = set.intersection(*by_task.values()) if by_task else set()
        if not common:
            named = {index: sorted(nics) for index, nics in sorted(by_task.items())}
            raise RuntimeError(
                f"Unable to find a set of common task-to-task communication interfaces: {named}, by index of task"
            )
        return common

    def wait_for_initial_registration(self, timeout: Timeout | float) -> None:
        """Wait for all tasks; TimeoutException, which names those that are missing, when they don't come in time."""
        self._wait(self._all, timeout, "to register")

    def wait_for_task_to_task_address_updates(self, timeout: Timeout | float) -> None:
        """Wait until each task has been found by another; TimeoutException as above."""
        self._wait(self._for_tasks, timeout, "to be found by another task")

    def _wait(self, there: Mapping[int, Any], timeout: Timeout | float, what: str) -> None:
        with self._changed:
            wait_for(self._changed, lambda: len(there) == self._num_proc, timeout,
                     lambda: f"tasks {sorted(set(range(self._num_proc)) - set(there))} {what}")  # fmt: skip


def wait_for(
    changed: threading.Condition, is_so: Callable[[], bool], timeout: Timeout | float, what: Callable[[], str]
) -> None:
    """Wait for a condition, whose lock is held; TimeoutException, which says for what, after the seconds or Timeout."""
    seconds = timeout.remaining() if isinstance(timeout, Timeout) else float(timeout)
    if not changed.wait_for(is_so, seconds):
        if isinstance(timeout, Timeout):
            timeout.check_time_out_for(what())
        raise TimeoutException(f"Timed out after {seconds:g} seconds waiting for {what()}")


class BasicDriverClient(BasicClient):
    """Asks a :class:`BasicDriverService`; the parameters are those of :class:`BasicClient`."""

    def __init__(
        self,
        name: str,
        driver_addresses: Mapping[str, Sequence[tuple[str, int]]],
        key: bytes,
        verbose: int = 0,
        match_intf: bool = False,
    ) -> None:
        super().__init__(name, driver_addresses, key, verbose, match_intf)

    def register_task(self, index: int, task_addresses: Addresses, host_hash: str) -> None:
        """Tell that a task is there, where, and on which host."""
        self._send(RegisterTaskRequest(index, task_addresses, host_hash))

    def all_task_addresses(self, index: int) -> Addresses:
        """Return where a task says that it is."""
        return dict(self._send(AllTaskAddressesRequest(index)).all_task_addresses)

    def register_task_to_task_addresses(self, index: int, task_addresses: Addresses) -> None:
        """Tell where a task was found."""
        self._send(RegisterTaskToTaskAddressesRequest(index, task_addresses))
