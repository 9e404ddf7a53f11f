"""``ElasticRayExecutor``: workers on the nodes of a Ray cluster, while nodes come and go."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray

from horovod.ray.elastic_job import ElasticRun, Resources
from horovod.ray.strategy import Demand, check_gpus
from horovod.runner.common.util.timeout import TimeoutException as TimeoutException
from horovod.runner.elastic.discovery import HostDiscovery
from horovod.runner.elastic.settings import ElasticSettings


class RayHostDiscovery(HostDiscovery):
    """Finds slots on the nodes of the cluster: as many as their resources hold.

    Parameters
    ----------
    use_gpu : bool
        Whether a slot needs GPUs.
    cpus_per_slot, gpus_per_slot : float
        What a slot needs.
    """

    def __init__(self, use_gpu: bool = False, cpus_per_slot: float = 1, gpus_per_slot: float = 1) -> None:
        self.use_gpu = use_gpu
        self.cpus_per_slot = cpus_per_slot
        self.gpus_per_slot = gpus_per_slot

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return the slots of all living nodes by address; what other jobs use counts, too."""
        hosts: dict[str, int] = {}
        for node in ray.nodes():
            resources = node["Resources"] if node["Alive"] else {}
            slots = int(resources.get("CPU", 0) // self.cpus_per_slot)
            if self.use_gpu:
                slots = min(slots, int(resources.get("GPU", 0) // self.gpus_per_slot))
            if slots:
                address = node["NodeManagerAddress"]
                hosts[address] = hosts.get(address, 0) + slots
        return hosts


class TestDiscovery(RayHostDiscovery):
    """Pretends that nodes go and come back, to try a job's elasticity where they don't.

    Parameters
    ----------
    min_hosts, max_hosts : int
        Nodes at least and at most that are told of, as far as the cluster has so many.
    change_frequency_s : float
        Seconds after which one goes or comes.
    use_gpu, cpus_per_slot, gpus_per_slot
        See :class:`RayHostDiscovery`.

    Raises
    ------
    ValueError
        When `min_hosts` is below 1 or above `max_hosts`.
    """

    __test__ = False  # for pytest: no test

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_slot: float = 1,
        gpus_per_slot: float = 1,
    ) -> None:
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot)
        if not 1 <= min_hosts <= max_hosts:
            raise ValueError(f"min_hosts={min_hosts} must be at least 1, and at most max_hosts={max_hosts}.")
        self._least, self._most, self._every = min_hosts, max_hosts, change_frequency_s
        self._told: list[str] = []
        self._next_change = 0.0

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return some of the living nodes and their slots."""
        hosts = super().find_available_hosts_and_slots()
        self._told = [host for host in self._told if host in hosts]
        others = [host for host in hosts if host not in self._told]
        if len(self._told) < self._least:
            self._told += others[: self._least - len(self._told)]
        elif time.monotonic() >= self._next_change:
            comes = bool(others) and len(self._told) < self._most
            if comes and (len(self._told) == self._least or random.random() < 0.5):  # noqa: S311 (no secret)
                self._told.append(random.choice(others))  # noqa: S311
            elif len(self._told) > self._least:
                self._told.remove(random.choice(self._told))  # noqa: S311
        else:
            return {host: hosts[host] for host in self._told}
        self._next_change = time.monotonic() + self._every
        return {host: hosts[host] for host in self._told}


class ElasticRayExecutor:
    """Runs functions on workers that may come and go. The driver is connected to Ray (``ray.init``).

    Parameters
    ----------
    settings : ElasticSettings
        See :meth:`create_settings`.
    use_gpu : bool
        Whether each worker takes GPUs.
    cpus_per_slot : float
        Ray's CPUs that each takes.
    gpus_per_slot : float, optional
        GPUs that each takes; by default one.
    env_vars : mapping, optional
        Variables of the workers.
    override_discovery : bool
        Whether the cluster's nodes are the hosts; else ``settings.discovery`` says, by nodes' addresses.

    Raises
    ------
    ValueError
        When arguments contradict each other.
    """

    def __init__(
        self,
        settings: ElasticSettings,
        use_gpu: bool = False,
        cpus_per_slot: float = 1,
        gpus_per_slot: float | None = None,
        env_vars: Mapping[str, Any] | None = None,
        override_discovery: bool = True,
    ) -> None:
        check_gpus(use_gpu, gpus_per_slot, "gpus_per_slot")
        if not override_discovery and settings.discovery is None:
            raise ValueError("override_discovery is False, but settings.discovery is not set.")
        self.settings = settings
        self._override_discovery = override_discovery
        self._resources = Resources(cpus_per_slot, (gpus_per_slot or 1) if use_gpu else 0, dict(env_vars or {}))
        self._is_started = False

    @classmethod
    def create_settings(
        cls,
        min_num_proc: int = 1,
        max_num_proc: int | None = None,
        reset_limit: int | None = None,
        elastic_timeout: float = 600,
        timeout_s: float = 30,
        ssh_identity_file: str | None = None,
        nics: Sequence[str] | None = None,
        min_np: int | None = None,
        max_np: int | None = None,
        **kwargs: Any,
    ) -> ElasticSettings:
        """Return options for the constructor.

        Parameters
        ----------
        min_num_proc, max_num_proc : int
            Workers at least and at most.
        reset_limit : int, optional
            How often they may form anew.
        elastic_timeout : float
            Seconds to wait for enough slots.
        timeout_s : float
            Seconds for a worker to start.
        nics : sequence of str, optional
            Network interfaces to use.
        ssh_identity_file
            Without effect.
        min_np, max_np : int, optional
            Old names.
        **kwargs
            Further fields of :class:`horovod.runner.elastic.settings.ElasticSettings`.
        """
        del ssh_identity_file
        least = min_num_proc if min_np is None else min_np
        return ElasticSettings(
            num_proc=least,
            hosts="",
            min_num_proc=least,
            max_num_proc=max_num_proc if max_np is None else max_np,
            reset_limit=reset_limit,
            elastic_timeout=elastic_timeout,
            start_timeout=timeout_s,
            nics=list(nics or ()),
            **kwargs,
        )

    def start(self) -> None:
        """Get ready for runs; workers start with each run."""
        if self._override_discovery:
            resources = self._resources
            discovery = RayHostDiscovery(bool(resources.gpus), resources.cpus, resources.gpus or 1)
            self.settings = replace(self.settings, discovery=discovery)
        self._is_started = True

    def run(
        self, worker_fn: Callable[[], Any], callbacks: Sequence[Callable[[dict[str, Any]], Any]] | None = None
    ) -> list[Any]:
        """Call a function on all workers, and return the results by rank of those that were there at the end.

        Parameters
        ----------
        worker_fn : callable
            Called without arguments; goes through changes of the workers by ``hvd.elastic.run``.
        callbacks : sequence of callable, optional
            Get each dictionary that a worker gives to ``horovod.ray.ray_logger.log``.

        Raises
        ------
        WorkerDiedError
            When workers died and the job could not go on.
        Exception
            What the function raised, as Ray wraps it, when the job could not go on after that.
        TimeoutException, RuntimeError
            When there were too few slots for too long, or the limit of resets was reached.
        """
        return self.run_with(lambda _: worker_fn(), (), callbacks)

    def run_with(self, function: Callable[[Any], Any], arguments: tuple[Any, ...], callbacks: Any) -> list[Any]:
        """Run a function of an object as :meth:`run` does; each worker makes one as ``start_executable`` says."""
        if not self._is_started:
            raise RuntimeError("Call start() first.")
        return ElasticRun(self.settings, self._resources, (function, arguments), callbacks or ()).run()


class ElasticJob:
    """The job of a ``RayExecutor`` whose workers may come and go: each call starts and ends them."""

    def __init__(self, settings: ElasticSettings, demand: Demand, override_discovery: bool) -> None:
        self._settings, self._demand, self._override_discovery = settings, demand, override_discovery
        self._executor: ElasticRayExecutor | None = None
        self._arguments: tuple[Any, ...] = ()

    def start(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Note what the workers are to be."""
        self._arguments = (executable_cls, executable_args, executable_kwargs)
        self._executor = ElasticRayExecutor(
            self._settings,
            use_gpu=self._demand.gpus > 0,
            cpus_per_slot=self._demand.cpus,
            gpus_per_slot=self._demand.gpus or None,
            env_vars=extra_env_vars,
            override_discovery=self._override_discovery,
        )
        self._executor.start()

    def execute(self, fn: Callable[[Any], Any], callbacks: Any = None) -> list[Any]:
        """Call ``fn(object)`` on all workers."""
        if self._executor is None:
            raise RuntimeError("Call start() first.")
        return self._executor.run_with(fn, self._arguments, callbacks)

    def run_remote(self, fn: Callable[[Any], Any]) -> list[Any]:
        """Refuse: which workers there are, is known at the end."""
        raise NotImplementedError("run_remote is not there in an elastic job: the workers may change. Use run().")

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """Refuse: workers live as long as a call of all."""
        raise NotImplementedError("execute_single is not there in an elastic job: the workers may change. Use run().")

    def shutdown(self) -> None:
        """Forget the workers; none lives between calls."""
        self._executor = None
