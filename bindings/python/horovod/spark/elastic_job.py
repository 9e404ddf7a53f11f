"""An elastic job in Spark's tasks, which come and go: every task is a host of its own to the launcher's control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from horovod.runner.common.util.hosts import lay_out
from horovod.runner.elastic.discovery import HostDiscovery
from horovod.runner.elastic.generation import Place, Publish, Stage
from horovod.runner.elastic.job import ElasticJob
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.gloo_run import ElasticPlaces
from horovod.runner.job import Connection, HostJob, JobFailedError
from horovod.spark import application
from horovod.spark.application import Driver, Held
from horovod.spark.gathering import Gathering
from horovod.spark.job import CONNECTION_LOST, InTasks
from horovod.spark.stage import StageFailedError

_LOOK_SECONDS = 1.0  # between looks whether Spark has ended its job: nobody tells
_REASON_SECONDS = 2.0  # Spark's reason may come after what it did


class TaskDiscovery(HostDiscovery):
    """Finds the tasks that have come and live: hosts with a slot each, neighbours where they share a machine."""

    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return a slot for the name of each task."""
        tasks = [task for task in self._gathering.tasks().values() if task.is_alive]
        return {task.place.name: 1 for task in sorted(tasks, key=lambda task: (task.place.host, task.place.index))}


class TaskPlaces(ElasticPlaces):
    """Where the ranks of an elastic job find the driver and one another.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job.
    driver : Driver
        Where it is.
    held : Held
        The tasks.
    """

    def __init__(self, settings: ElasticSettings, driver: Driver, held: Held) -> None:
        super().__init__(settings, held.secret, driver.listens_at)
        self._driver, self._gathering = driver, held.gathering

    def is_local(self, hostname: str) -> bool:
        """Tell that no task is the driver."""
        return False

    def address_for(self, hostname: str) -> str:
        """Return the driver's address."""
        return self._driver.numeric_address

    def master_for(self, hostname: str, first: str) -> str:
        """Return the address of the task that has rank 0."""
        return self._gathering.tasks()[first].place.address

    def host_of(self, task: str) -> str:
        """Return the host that a task is on."""
        return self._gathering.tasks()[task].place.host

    def environment_of(self, hostname: str) -> dict[str, str]:
        """Return the variables of a task's ranks: to them, tasks on one host share that."""
        return super().environment_of(self.host_of(hostname))


class ElasticTaskJob(InTasks, ElasticJob):
    """Runs a rank in each task that Spark has at the moment.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job, with a `TaskDiscovery`.
    held : Held
        The tasks.
    places : TaskPlaces
        Where they are.
    environment : mapping
        What all ranks' environments get.
    streams : mapping
        As for `TaskJob`.
    """

    attempts = 1  # Spark makes others
    speaker = "horovod.spark"

    def __init__(
        self,
        settings: ElasticSettings,
        held: Held,
        places: TaskPlaces,
        environment: Mapping[str, str],
        streams: Mapping[str, Any],
    ) -> None:
        super().__init__(
            streams,
            settings,
            [],  # the task adds the command, the secret and the function: Spark brought it those
            dict(environment),
            b"",
            is_local=places.is_local,
            environment_of=places.environment_of,
            reach_for=lambda _: None,  # tasks have found the driver by themselves
            reached_at=places.reached_at,
            place_of=places.place_of,
            retire=places.retire,
        )
        self._held, self._places = held, places

    def run(self) -> None:
        """Run to the end; errors as ElasticJob's, or StageFailedError."""
        try:
            super().run()
        except (JobFailedError, StageFailedError) as error:
            failure = self._failure_behind(error)
            raise failure from failure.__cause__

    def _failure_behind(self, error: Exception) -> Exception:
        """Return what ended the job: a worker's own failure where there is one, else what Spark says of its tasks."""
        told = [number for number, (_, status) in self._failed.items() if status != CONNECTION_LOST]
        own = [number for number in told if not self._blame.is_victim(number)]
        if told:
            return self._failure_of_worker((own or told)[-1])
        if isinstance(error, StageFailedError) or not self._failed:
            return error
        return self._held.stage.failure(_REASON_SECONDS) or error

    # --- tasks in the place of hosts ---

    def _start_agent(self, host: HostJob) -> Connection:
        task = self._held.gathering.tasks()[host.hostname]
        task.begin()
        return Connection(host, task)  # type: ignore[arg-type]

    def _take_in(self, limit: float | None) -> None:
        super()._take_in(_LOOK_SECONDS if limit is None else min(limit, _LOOK_SECONDS))
        failure = None if self._stopping else self._held.stage.failure()
        if failure is not None:
            self._membership.stop(failure)

    def _rank_ended(self, rank: int, status: int) -> None:
        """Give a task up whose rank failed: Spark starts it again, as its options say."""
        worker = self._membership.workers.get(rank)
        super()._rank_ended(rank, status)
        if worker is not None and worker.stage != Stage.REMOVED and status != 0:
            connection = self._by_host.get(worker.host)
            if connection is not None:
                connection.process.stdin.close()  # type: ignore[union-attr]

    def _agent_ended(self, connection: Connection) -> None:
        for worker in self._membership.workers.values():
            if worker.host == connection.host.hostname and worker.stage != Stage.REMOVED:
                self._failed[worker.number] = (worker, CONNECTION_LOST)
        super()._agent_ended(connection)

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a rank its numbers: local ranks are those of its machine."""
        hosts = [self._places.host_of(worker.host) for worker in place.ranked]
        slot = lay_out(hosts)[place.ranked.index(place.worker)]
        if self._settings.verbose >= 2 and isinstance(place, Publish):
            application.say(f"rank {slot.rank} is in {place.worker.host}")
        return super().place_of(replace(place, slot=slot))
