"""The driver's side of Spark's tasks: which have come, and the connection to each."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from horovod.runner.common.util.timeout import Timeout
from horovod.runner.util.door import STRANGER_SECONDS, Door
from horovod.runner.util.threads import in_thread
from horovod.runner.util.wire import PROOF_BYTES, Wire, ask_for_proof
from horovod.spark.task import Place

_LOOK_SECONDS = 0.2


class _Half:
    """One direction of a connection, where our launcher has a pipe of its agent."""

    def __init__(self, connection: socket.socket, is_written: bool) -> None:
        self._connection, self._is_written = connection, is_written

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        if self._is_written:  # what is read ends when the task does
            with contextlib.suppress(OSError):  # it has
                self._connection.shutdown(socket.SHUT_WR)


class Task:
    """A task that has come. To our launcher it is its agent's process.

    Attributes
    ----------
    place : Place
        Where it is.
    stdin, stdout
        The agent's.
    """

    def __init__(self, connection: socket.socket, place: Place, wire: Wire) -> None:
        self.place = place
        self.stdin, self.stdout = _Half(connection, True), _Half(connection, False)
        self._connection, self._wire = connection, wire

    def begin(self) -> None:
        """Have it start its agent."""
        with contextlib.suppress(OSError), self._connection.makefile("wb") as writer:
            self._wire.write(self.place.index, writer)

    @property
    def is_alive(self) -> bool:
        """Tell whether the connection stands, of a task that has not begun."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; subprocess.TimeoutExpired after `timeout` seconds."""
        try:
            self._connection.settimeout(timeout)
            while self._connection.recv(1 << 16):
                continue
        except socket.timeout as error:
            raise subprocess.TimeoutExpired(self.place.name, timeout or 0.0) from error
        except OSError:
            pass  # it has ended, or has been given up
        self.kill()
        return 0

    def kill(self) -> None:
        """Give it up: without a driver it ends."""
        self._connection.close()


class Gathering:
    """Where Spark's tasks come to. Any thread.

    Parameters
    ----------
    address : str
        To listen at.
    key : bytes
        Proves tasks and driver to each other.
    is_elastic : bool
        Tasks may come at any time. Several attempts of one are several tasks: only their ends tell which Spark gave up.
    """

    def __init__(self, address: str, key: bytes, is_elastic: bool = False) -> None:
        self._wire = Wire(key)
        self._is_elastic = is_elastic
        self._changed = threading.Condition()
        self._tasks: dict[int | str, Task] = {}  # by Spark's number, or by name
        self._left_out: list[Task] = []  # later attempts of tasks that are in the job
        self._is_closed = self._is_complete = False
        self._door = Door(address, lambda: ask_for_proof(key), PROOF_BYTES, "horovod-spark", self._admit)
        self.port = self._door.port

    def _admit(self, connection: socket.socket, _: Any) -> None:
        in_thread(self._welcome, (connection,), name="horovod-spark-task")

    def _welcome(self, connection: socket.socket) -> None:
        """Take a task in; one that is gone again is no reason for words on the user's terminal."""
        try:
            connection.settimeout(STRANGER_SECONDS)
            with connection.makefile("rb") as stream:
                place = self._wire.read(stream)
            if not isinstance(place, Place):
                raise ConnectionError
        except (OSError, EOFError):
            connection.close()
            return
        connection.settimeout(None)
        self._let_in(Task(connection, place, self._wire))

    def _let_in(self, task: Task) -> None:
        with self._changed:
            if self._is_closed:
                task.kill()
            elif self._is_complete:
                self._left_out.append(task)  # it waits: Spark would take its end for the task's
            elif self._is_elastic:
                self._tasks[task.place.name] = task
            else:
                before = self._tasks.pop(task.place.index, None)
                if before is not None:
                    before.kill()
                self._tasks[task.place.index] = task
            self._changed.notify_all()

    def wait_for(self, count: int, timeout: Timeout, check: Callable[[], None]) -> list[Task]:
        """Return the tasks, by index, once there are so many; no other is let in then, but where the job is elastic.

        Parameters
        ----------
        count : int
            How many are waited for.
        timeout : Timeout
            For how long.
        check : callable
            Called a few times a second; raises when there is no use in waiting.

        Raises
        ------
        TimeoutException
            After the timeout.
        """
        with self._changed:
            while True:
                self._tasks = {name: task for name, task in self._tasks.items() if task.is_alive}
                if len(self._tasks) >= count:
                    self._is_complete = not self._is_elastic
                    return sorted(self._tasks.values(), key=lambda task: task.place.index)
                check()
                timeout.check_time_out_for(f"{len(self._tasks)} of {count}")
                self._changed.wait(_LOOK_SECONDS)

    def tasks(self) -> dict[str, Task]:
        """Return all tasks that have come, by name, also those that have ended."""
        with self._changed:
            return {task.place.name: task for task in self._tasks.values()}

    def dismiss(self) -> None:
        """End the tasks that the job has no use for, and all that still come."""
        with self._changed:
            self._is_closed = True
            for task in [*self._left_out, *self._tasks.values()]:
                task.kill()

    def close(self) -> None:
        """Dismiss the tasks, and listen no more."""
        self.dismiss()
        self._door.close()
