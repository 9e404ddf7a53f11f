"""``RayExecutor``: functions on workers that are actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horovod.ray.client import job_of
from horovod.ray.coordinator import Coordinator as Coordinator, MiniSettings
from horovod.ray.elastic import ElasticJob, ElasticRayExecutor
from horovod.ray.static import Callbacks, Function, StaticJob
from horovod.ray.strategy import BaseStrategy, Demand, check_gpus


class RayExecutor:
    """Runs functions on workers in which ``hvd.init()`` finds its job. The driver is connected to Ray (``ray.init``).

    Parameters
    ----------
    settings : MiniSettings
        See :meth:`create_settings`.
    num_workers : int, optional
        Workers wherever there is room, close together.
    num_hosts, num_workers_per_host : int, optional
        Instead: as many workers on each of so many nodes.
    cpus_per_worker : int
        Ray's CPUs that each worker takes.
    use_gpu : bool
        Whether each takes GPUs.
    gpus_per_worker : int, optional
        How many; by default one.
    use_current_placement_group : bool
        Whether workers go into the placement group that this process is in.
    min_workers, max_workers : int, optional
        Instead of a fixed number: the job is elastic, and starts and goes on with so many workers.
    reset_limit, cooldown_range, elastic_timeout
        Of an elastic job: how often workers may form anew; the seconds, least and most, after which a slot that has
        failed is used again; the seconds to wait for enough slots.
    override_discovery : bool
        Of an elastic job: whether the cluster's nodes are the hosts; else ``settings.discovery`` says.

    Raises
    ------
    ValueError
        When arguments contradict each other.
    """

    def __init__(
        self,
        settings: Any,
        num_workers: int | None = None,
        num_hosts: int | None = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: int = 1,
        use_gpu: bool = False,
        gpus_per_worker: int | None = None,
        use_current_placement_group: bool = True,
        min_workers: int | None = None,
        max_workers: int | None = None,
        reset_limit: int | None = None,
        cooldown_range: Sequence[int] | None = None,
        elastic_timeout: float = 600,
        override_discovery: bool = True,
    ) -> None:
        check_gpus(use_gpu, gpus_per_worker, "gpus_per_worker")
        is_elastic = _check_workers(num_workers, num_hosts, min_workers, max_workers)
        gpus = (gpus_per_worker or 1) if use_gpu else 0
        demand = Demand(num_workers or min_workers, num_hosts, num_workers_per_host, cpus_per_worker, gpus)
        if demand.total < 1:
            raise ValueError(f"{demand.total} workers were asked for: at least one is needed.")
        self.settings = settings
        self.num_workers = demand.total
        if not is_elastic:
            strategy = BaseStrategy(settings, demand, use_current=use_current_placement_group)
            self._job: Any = job_of(StaticJob, settings, strategy)
            return
        elastic = ElasticRayExecutor.create_settings(
            min_num_proc=demand.total,
            max_num_proc=max_workers,
            reset_limit=reset_limit,
            elastic_timeout=elastic_timeout,
            timeout_s=settings.timeout_s,
            nics=settings.nics,
            cooldown_range=cooldown_range,
            discovery=getattr(settings, "discovery", None),
        )
        self._job = job_of(ElasticJob, elastic, demand, override_discovery)

    @classmethod
    def create_settings(
        cls,
        timeout_s: float = 30,
        ssh_identity_file: str | None = None,
        ssh_str: str | None = None,
        placement_group_timeout_s: float = 100,
        nics: Any = None,
    ) -> MiniSettings:
        """Return options for the constructor; see :class:`MiniSettings`."""
        return MiniSettings(
            timeout_s=timeout_s,
            ssh_identity_file=ssh_identity_file,
            ssh_str=ssh_str,
            placement_group_timeout_s=placement_group_timeout_s,
            nics=nics,
        )

    def start(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Start the workers.

        Parameters
        ----------
        executable_cls : class, optional
            Each worker makes an object of it, with `executable_args` and `executable_kwargs`.
        extra_env_vars : mapping, optional
            Variables of the workers.

        Raises
        ------
        TimeoutError
            When the cluster has no room for them.
        """
        self._job.start(executable_cls, executable_args, executable_kwargs, extra_env_vars)

    def execute(self, fn: Function, callbacks: Callbacks | None = None) -> list[Any]:
        """Call ``fn(object)`` on all workers, with each one's object, and return the results by rank.

        Parameters
        ----------
        fn : callable
            The function.
        callbacks : sequence of callable, optional
            Get each dictionary that a worker gives to ``horovod.ray.ray_logger.log``.
        """
        return self._job.execute(fn, callbacks)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callbacks: Callbacks | None = None,
    ) -> list[Any]:
        """Call ``fn(*args, **kwargs)`` on all workers and return the results by rank."""
        return self._job.execute(_without_object(fn, args, kwargs), callbacks)

    def run_remote(
        self, fn: Callable[..., Any], args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Call ``fn(*args, **kwargs)`` on all workers and return Ray's references to the results, by rank.

        In an elastic job: NotImplementedError.
        """
        return self._job.run_remote(_without_object(fn, args, kwargs))

    def execute_single(self, fn: Function) -> Any:
        """Call ``fn(object)`` on rank 0 and return the result. In an elastic job: NotImplementedError."""
        return self._job.execute_single(fn)

    def shutdown(self) -> None:
        """End the workers; :meth:`start` may be called again."""
        self._job.shutdown()


def _check_workers(
    num_workers: int | None, num_hosts: int | None, min_workers: int | None, max_workers: int | None
) -> bool:
    """Tell whether these numbers ask for an elastic job; ValueError when they contradict each other."""
    if max_workers is not None and (min_workers is None or min_workers < 1):
        raise ValueError(f"max_workers={max_workers} needs min_workers, of at least 1.")
    if min_workers is not None and (num_workers is not None or num_hosts is not None):
        raise ValueError("Give min_workers, for an elastic job, or num_workers or num_hosts: not both.")
    if min_workers is None and (num_workers is None) == (num_hosts is None):
        raise ValueError("Give one of num_workers, num_hosts and min_workers.")
    return min_workers is not None


def _without_object(fn: Callable[..., Any], args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Function:
    def call(_: Any) -> Any:
        return fn(*(args or ()), **(kwargs or {}))

    return call
