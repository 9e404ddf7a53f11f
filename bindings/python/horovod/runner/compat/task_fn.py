"""One of a ring of tasks that find the interfaces in common.

``python -m horovod.runner.task_fn INDEX TASKS DRIVER SETTINGS``: the last two are what ``codec.dumps_base64`` makes of
a ``BasicDriverService``'s addresses and of the job's settings. Each task registers with the driver, waits until it says
that all are there, looks for the next one at interfaces of the same name, and tells the driver where it found it. Our
own launcher has no need of it: each host finds by itself which of the launcher's addresses answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from horovod.runner.common.util import codec
from horovod.runner.common.util.host_hash import host_hash
from horovod.runner.common.util.settings import Settings
from horovod.runner.compat.driver_service import BasicDriverClient, wait_for
from horovod.runner.compat.network import AckResponse
from horovod.runner.compat.secret import get_secret
from horovod.runner.compat.task_service import BasicTaskClient, BasicTaskService

DRIVER_NAME = "horovod driver service"
_ATTEMPTS = 10


def task_name(index: int) -> str:
    """Return the name of a task's service."""
    return f"horovod task service #{index}"


class _FoundRequest:
    """The task that looks for this one has told where it is."""


class _Task(BasicTaskService):
    def __init__(self, index: int, key: bytes, nics: Sequence[str]) -> None:
        self._is_found = False
        super().__init__(task_name(index), index, key, nics)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if not isinstance(req, _FoundRequest):
            return super()._handle(req, client_address)
        with self._changed:
            self._is_found = True
            self._changed.notify_all()
        return AckResponse()

    def wait_until_found(self, timeout: float) -> None:
        with self._changed:
            wait_for(self._changed, lambda: self._is_found, timeout, lambda: "the task before this one to find it")


def _task_fn(
    index: int, num_hosts: int, driver_addresses: Mapping[str, Sequence[tuple[str, int]]], settings: Settings
) -> None:
    key = getattr(settings, "key", None) or get_secret()
    seconds = getattr(settings.start_timeout, "remaining", lambda: settings.start_timeout)()
    task = _Task(index, key, settings.nics)
    try:
        driver = BasicDriverClient(DRIVER_NAME, driver_addresses, key)
        driver.register_task(index, task.addresses(), host_hash())
        task.wait_for_initial_registration(seconds)
        following = (index + 1) % num_hosts
        others = driver.all_task_addresses(following)
        client = BasicTaskClient(task_name(following), others, key, match_intf=True, attempts=_ATTEMPTS)
        driver.register_task_to_task_addresses(following, client.addresses())
        client._send(_FoundRequest())
        task.wait_until_found(seconds)
    finally:
        task.shutdown()


def main(arguments: Sequence[str]) -> None:
    """Be one of the tasks: its index, how many there are, and what they are given."""
    places, options = (codec.loads_base64(text) for text in arguments[2:4])
    _task_fn(int(arguments[0]), int(arguments[1]), places, options)
