"""Drives an elastic job for a caller that starts the workers itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from horovod.runner.common.util.hosts import INVALID_SLOT_INFO, SlotInfo
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.compat.callers_job import CallersJob, CreateWorker, Results
from horovod.runner.compat.registration import WorkerStateRegistry
from horovod.runner.elastic.control import DISCOVER_HOSTS_FREQUENCY_SECS as DISCOVER_HOSTS_FREQUENCY_SECS, find_hosts
from horovod.runner.elastic.discovery import DiscoveredHosts, DiscoveryError, HostDiscovery
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.gloo_run import ElasticPlaces
from horovod.runner.util.threads import in_thread

ELASTIC_TIMEOUT_SECS = ElasticSettings.elastic_timeout


class ElasticDriver:
    """Keeps an elastic job going: says when the caller is to start a worker, and gives workers their ranks.

    A worker is a process that uses ``hvd.elastic``, and whose environment has ``HOROVOD_ELASTIC=1``,
    ``HOROVOD_HOSTNAME`` and ``HOROVOD_LOCAL_RANK`` of its slot, ``HOROVOD_GLOO_RENDEZVOUS_ADDR`` and ``_PORT`` of a
    server that was started with ``create_rendezvous_handler(driver)``, and ``_HOROVOD_SECRET_KEY``. Or it is
    anything else that says :meth:`record_ready` of itself and asks :meth:`get_slot_info`. All methods may be called
    from any thread.

    Parameters
    ----------
    rendezvous : RendezvousServer
        Is stopped by :meth:`stop`.
    discovery : HostDiscovery
        Says which hosts there are; asked each second from now on.
    min_num_proc, max_num_proc : int
        With how many workers the job goes on, at least and at most; None for any number.
    timeout : float, optional
        Seconds to wait for enough slots.
    reset_limit : int, optional
        How often workers may form anew.
    cooldown_range : pair of int, optional
        Seconds after which a slot that has failed is used again; never without.
    verbose : int
        Of no effect.
    """

    def __init__(
        self,
        rendezvous: Any,
        discovery: HostDiscovery,
        min_num_proc: int,
        max_num_proc: int | None,
        timeout: float | None = None,
        reset_limit: int | None = None,
        cooldown_range: Sequence[int] | None = None,
        verbose: int = 0,
    ) -> None:
        del verbose
        self._settings = ElasticSettings(
            num_proc=min_num_proc,
            hosts="",
            min_num_proc=min_num_proc,
            max_num_proc=max_num_proc,
            elastic_timeout=ELASTIC_TIMEOUT_SECS if timeout is None else timeout,
            reset_limit=reset_limit,
            cooldown_range=cooldown_range,
        )
        self._discovery = discovery
        self._rendezvous = rendezvous
        self._registry = WorkerStateRegistry(self, None)
        self._places: ElasticPlaces | None = None
        self._has_ended = threading.Event()
        self._changed = threading.Condition()  # guards changes of the rest
        self._job: CallersJob | None = None
        self._stopped: Results | None = None  # before there was a job
        self._hosts: dict[str, int] = {}
        self._discovery_error = ""
        in_thread(self._discover, name="horovod-discovery")

    def wait_for_available_slots(self, min_num_proc: int, min_hosts: int = 1) -> DiscoveredHosts:
        """Wait until discovery has found so many slots on so many hosts; TimeoutException when it does not in time."""
        seconds = self._settings.elastic_timeout

        def enough() -> bool:
            return self.finished() or (sum(self._hosts.values()) >= min_num_proc and len(self._hosts) >= min_hosts)

        with self._changed:
            if not self._changed.wait_for(enough, seconds):
                raise TimeoutException(
                    f"Timed out after {seconds:g} seconds waiting for {min_num_proc} slots on {min_hosts} host(s): "
                    f"discovery finds {self._hosts}. {self._discovery_error}"
                )
            if self.finished():
                raise RuntimeError(f"The job has ended. {self.get_results().error_message or ''}".strip())
            return DiscoveredHosts(self._hosts, list(self._hosts))

    def start(self, num_proc: int, create_worker_fn: CreateWorker) -> None:
        """Wait for slots, and start workers on them.

        Parameters
        ----------
        num_proc : int
            With how many the job begins, at least.
        create_worker_fn : callable
            ``create_worker_fn(slot_info, events)`` runs a worker to its end, in a thread of its own, and returns its
            status, or that and the time. It must end the worker when one of the events is set.
        """
        self._check_is_new()
        self.wait_for_available_slots(num_proc)
        self._settings.num_proc = num_proc
        job, has_begun = CallersJob(self._settings, create_worker_fn, self._places, self._registry), threading.Event()
        with self._changed:
            self._check_is_new()
            self._job, hosts = job, dict(self._hosts)  # what is found from now on, the job is told
        in_thread(job.run, (hosts, has_begun), name="horovod-elastic-driver")
        has_begun.wait()

    def resume(self) -> None:
        """Have the job look at once for what is to be done; it does so by itself, too."""
        if self._job is not None:
            self._job.look()

    def stop(self, error_message: str | None = None) -> None:
        """Have the job and its workers end, which :meth:`get_results` waits for; no worker can join any more."""
        self._has_ended.set()
        with self._changed:
            if self._job is not None:
                self._job.stop(None if error_message is None else RuntimeError(error_message))
            else:
                self._stopped = self._stopped or Results(error_message=error_message)
            self._changed.notify_all()
        if self._job is None and self._places is not None:
            self._places.close()
        self._rendezvous.stop()

    def finished(self) -> bool:
        """Tell whether the job has ended."""
        return self._stopped is not None or (self._job is not None and self._job.is_over())

    def get_results(self) -> Results:
        """Wait for the end of the job and its workers, and return how it was; RuntimeError before there is one."""
        results = self._stopped if self._job is None else self._job.wait()
        if results is None:
            raise RuntimeError("There is no job yet: call ElasticDriver.start first.")
        return results

    def record_ready(self, host: str, slot: int) -> None:
        """Say for a slot's worker that it waits for a generation; return when it has its place in one, or none ever."""
        if self._job is not None:
            self._job.record_ready(host, slot)

    def register_worker_server(self, *_: Any) -> None:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "Workers need no server here: hvd.elastic hears of changes over its line to the driver."
        )

    def world_size(self) -> int:
        """Return how many workers the last generation has."""
        return len(self._slots())

    def local_size(self, host: str) -> int:
        """Return how many of them are on a host."""
        return len(self.host_assignments.get(host, []))

    @property
    def host_assignments(self) -> dict[str, list[SlotInfo]]:
        """Their numbers by host."""
        found: dict[str, list[SlotInfo]] = {}
        for (host, _), info in sorted(self._slots().items()):
            found.setdefault(host, []).append(info)
        return found

    def has_rank_assignment(self, host: str, slot: int) -> bool:
        """Tell whether a slot's worker is one of them."""
        return (host, slot) in self._slots()

    def get_slot_info(self, host: str, slot: int) -> SlotInfo:
        """Return the numbers of a slot's worker, INVALID_SLOT_INFO for none."""
        return self._slots().get((host, slot), INVALID_SLOT_INFO)

    def get_coordinator_info(self) -> SlotInfo | None:
        """Return the numbers of rank 0."""
        return next((info for info in self._slots().values() if info.rank == 0), None)

    def get_available_hosts(self) -> list[str]:
        """Return the hosts that discovery found last."""
        with self._changed:
            return list(self._hosts)

    # --- for the service that workers ask ---

    def serve(self, key: bytes) -> None:
        """Get ready for workers that are processes: their engines meet at a rendezvous with this secret."""
        self._places = ElasticPlaces(self._settings, key)

    def job(self) -> CallersJob:
        """Return the job; LookupError before there is one."""
        if self._job is None:
            raise LookupError("this driver has no job yet")
        return self._job

    # --- inside ---

    def _check_is_new(self) -> None:
        if self._job is not None or self._stopped is not None:
            before = "start" if self._job is not None else "stop"
            raise RuntimeError(f"ElasticDriver.{before} was called before: a driver drives one job.")

    def _slots(self) -> dict[tuple[str, int], SlotInfo]:
        return {} if self._job is None else self._job.slots()

    def _discover(self) -> None:
        first: dict[str, int] = {}
        try:
            first = self._discovery.find_available_hosts_and_slots()
            self._found(first)
        except (DiscoveryError, OSError) as error:
            self._found(str(error))
        find_hosts(self._discovery, first, self._found, self._has_ended)

    def _found(self, found: dict[str, int] | str) -> None:
        with self._changed:
            if isinstance(found, str):
                self._discovery_error = found
            else:
                self._hosts, self._discovery_error = dict(found), ""
            if self._job is not None:
                self._job.hosts_found(found)
            self._changed.notify_all()
