"""A job whose agents are in Spark's tasks, what becomes of its output, and what its errors say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from horovod.runner.blame import Raised
from horovod.runner.common.util.settings import Settings
from horovod.runner.job import Connection, HostJob, Job, JobFailedError
from horovod.spark.gathering import Task

_KEPT_BYTES = 1 << 14
CONNECTION_LOST = 255  # the status of a rank whose agent is gone


class _Tail:
    """Keeps the end of what is written."""

    def __init__(self) -> None:
        self._kept = b""

    def write(self, data: bytes) -> int:
        self._kept = (self._kept + data)[-_KEPT_BYTES:]
        return len(data)

    def flush(self) -> None:
        """All is there at once."""

    close = flush

    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()


class InTasks(Job):
    """The common part of jobs in tasks: where their output goes, and that its end is kept for errors.

    Parameters
    ----------
    streams : mapping
        Where output goes that does not go to this process's own ``stdout`` or ``stderr``, by these names.
    *arguments, **options
        Of the job's other class.
    """

    def __init__(self, streams: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._streams = streams
        self._tails: dict[int, _Tail] = {}

    def _failure(self, rank: int, status: int, host: str) -> JobFailedError:
        """Return the job's error; where the rank at fault told nothing, with the end of what it wrote to stderr."""
        failure = super()._failure(rank, status, host)
        if Raised.unpickled(self.results.get(rank)) is None and not self._blame.has_told(rank):
            failure.args = (f"{failure}{self._last_words(rank, failure.rank, status)}",)
        return failure

    def _last_words(self, rank: int, name: int | str, status: int) -> str:
        words = self._tails[rank].text() if rank in self._tails else ""
        who = f"rank {name}" if isinstance(name, int) else f"worker {name}"
        if words:
            return f"What {who} wrote last to stderr:\n{words}"
        if status == CONNECTION_LOST:
            return (
                f"The connection to {who}'s Spark task was lost: was its executor ended, for the memory that it took "
                "perhaps? The executor's log may tell."
            )
        return f"{who.capitalize()} wrote nothing to stderr."

    def _own_stream(self, stream: str) -> Any:
        return self._streams.get(stream) or super()._own_stream(stream)

    def _copy_for(self, rank: int, stream: str) -> Any:
        return self._tails.setdefault(rank, _Tail()) if stream == "stderr" else None

    def _await_hello(self, connection: Connection, deadline: float) -> str | None:
        if super()._await_hello(connection, deadline) is None:
            return None
        return f"Spark task {connection.host.hostname} ended before it began. Its executor's log may tell why."


class TaskJob(InTasks):
    """Runs one rank in each task.

    Parameters
    ----------
    settings : Settings
        Options of the job.
    tasks : sequence of Task
        By rank.
    variables : sequence of mapping
        By rank: what each rank's environment gets.
    environment : mapping
        What all ranks' environments get.
    streams : mapping
        Where output goes that does not go to this process's own ``stdout`` or ``stderr``, by these names.
    """

    def __init__(
        self,
        settings: Settings,
        tasks: Sequence[Task],
        variables: Sequence[Mapping[str, str]],
        environment: Mapping[str, str],
        streams: Mapping[str, Any],
    ) -> None:
        hosts = []
        for rank, task in enumerate(tasks):
            sharers = int(variables[rank]["HOROVOD_LOCAL_SIZE"])
            slot = {"rank": rank, "environment": dict(variables[rank]), "sharers": sharers}
            hosts.append(HostJob(task.place.name, False, [slot]))
        # The task adds the command, the secret and the function: Spark brought it those.
        super().__init__(streams, settings, hosts, [], dict(environment), b"")
        self._tasks = list(tasks)

    def _connect_all(self) -> None:
        deadline = time.monotonic() + self._settings.start_timeout
        started = []
        for host, task in zip(self._hosts, self._tasks):
            task.begin()
            started.append(Connection(host, task))  # type: ignore[arg-type]
        for rank, connection in enumerate(started):
            error = self._await_hello(connection, deadline)
            if error is not None:
                raise RuntimeError(f"{error} It was to run rank {rank}.")
            self._connections.append(connection)
