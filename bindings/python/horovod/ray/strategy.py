"""Where the workers of a job are placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from horovod.common.util import whole_number
from horovod.ray.calls import Crew
from horovod.ray.worker import BaseHorovodWorker


def create_placement_group(
    resources_per_bundle: dict[str, float], num_bundles: int, pg_timeout: float, pg_strategy: str
) -> tuple[PlacementGroup, list[dict[str, float]]]:
    """Reserve equal bundles of resources; return the group and its bundles.

    Raises
    ------
    TimeoutError
        When the cluster has not had the room for `pg_timeout` seconds.
    """
    bundles = [dict(resources_per_bundle) for _ in range(num_bundles)]
    group = ray.util.placement_group(bundles, strategy=pg_strategy)
    ready, _ = ray.wait([group.ready()], timeout=pg_timeout)
    if not ready:
        remove_placement_group(group)
        raise TimeoutError(
            f"No room for the workers within {pg_timeout:g} s: {num_bundles} bundles of {resources_per_bundle} by "
            f"{pg_strategy}, where the cluster has {_brief(ray.cluster_resources())} and free are "
            f"{_brief(ray.available_resources())}. Ask for fewer, add nodes, or wait longer "
            "(placement_group_timeout_s)."
        )
    return group, bundles


def _brief(resources: dict[str, float]) -> dict[str, float]:
    return {name: resources.get(name, 0) for name in ("CPU", "GPU")}


def check_gpus(use_gpu: bool, gpus: float | None, name: str) -> None:
    """Refuse a number of GPUs where none are to be used, and one below 1, with a ValueError."""
    if gpus is not None and not use_gpu:
        raise ValueError(f"{name} is set, but use_gpu is False.")
    if gpus is not None and gpus < 1:
        raise ValueError(f"{name} must be at least 1: {gpus}.")


@dataclass(frozen=True)
class Demand:
    """The demand for workers.

    Attributes
    ----------
    num_workers, num_hosts : int or None
        Workers wherever there is room; or hosts, each with `workers_per_host`.
    cpus, gpus : float
        Of each worker.
    """

    num_workers: int | None
    num_hosts: int | None
    workers_per_host: int
    cpus: float
    gpus: float

    def __post_init__(self) -> None:
        """Refuse what is no whole number."""
        for name in ("num_workers", "num_hosts", "workers_per_host"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))

    @property
    def total(self) -> int:
        """Workers in all."""
        return self.num_workers or (self.num_hosts or 0) * self.workers_per_host

    def resources(self, workers: int = 1) -> dict[str, float]:
        """Return what so many workers need."""
        gpus = {"GPU": self.gpus * workers} if self.gpus else {}
        return {"CPU": self.cpus * workers, **gpus}


class BaseStrategy:
    """Workers whose resources are reserved, each an actor.

    Parameters
    ----------
    settings : MiniSettings
        Seconds to wait for room (``placement_group_timeout_s``) and for workers (``timeout_s``).
    demand : Demand
        Which workers.
    placement_group : PlacementGroup, optional
        Where to put them, instead of into a group of their own.
    use_current : bool
        Whether that is the group that this process is in, if it is in one.

    Attributes
    ----------
    placement_group : PlacementGroup or None
        Where they are.
    workers : list of actor handles
        Those of a node follow one another.
    """

    def __init__(
        self, settings: Any, demand: Demand, placement_group: PlacementGroup | None = None, use_current: bool = False
    ) -> None:
        self.settings, self._demand = settings, demand
        self.placement_group = self._given = placement_group
        self._uses_current, self._is_own = use_current, False
        self.workers: list[Any] = []

    @property
    def num_workers(self) -> int:
        """How many are asked for."""
        return self._demand.total

    def create_workers(self) -> tuple[list[Any], list[Any]]:
        """Start all; return them, and the first one of each node.

        Raises
        ------
        TimeoutError
            When the cluster has not had the room for ``settings.placement_group_timeout_s`` seconds, or a worker has
            not started for ``settings.timeout_s``.
        """
        remote, demand = ray.remote(BaseHorovodWorker), self._demand
        for rank, index in enumerate(self._bundles()):
            place = PlacementGroupSchedulingStrategy(
                self.placement_group, placement_group_bundle_index=index, placement_group_capture_child_tasks=False
            )
            options = {"num_cpus": demand.cpus, "num_gpus": demand.gpus, "scheduling_strategy": place}
            self.workers.append(remote.options(**options).remote(rank if index >= 0 else -1, self.num_workers))
        asked = [worker.node_id.remote() for worker in self.workers]
        _, missing = ray.wait(asked, num_returns=len(asked), timeout=self.settings.timeout_s)
        if missing:
            raise TimeoutError(
                f"{len(missing)} of {len(asked)} workers have not started within {self.settings.timeout_s:g} s: the "
                f"placement group, or the node, has no room for them. Each asks for {demand.resources()}. Ask for "
                "fewer, or wait longer (timeout_s)."
            )
        node_of = Crew(self.workers).gather(asked)
        first = {node: index for index, node in reversed(list(enumerate(node_of)))}
        order = sorted(range(len(node_of)), key=lambda index: first[node_of[index]])
        firsts = [self.workers[index] for index in sorted(first.values())]
        self.workers = [self.workers[index] for index in order]
        return self.workers, firsts

    def _bundles(self) -> list[int]:
        """Return each worker's bundle of the group; -1: Ray chooses, and then nodes decide about ranks."""
        self.placement_group = self._given or (get_current_placement_group() if self._uses_current else None)
        if self.placement_group is not None:
            return [-1] * self.num_workers
        demand = self._demand
        if demand.num_workers:
            bundles, per_bundle, how = demand.num_workers, 1, "PACK"
        else:
            bundles, per_bundle, how = demand.num_hosts or 0, demand.workers_per_host, "STRICT_SPREAD"
        timeout = self.settings.placement_group_timeout_s
        self.placement_group, _ = create_placement_group(demand.resources(per_bundle), bundles, timeout, how)
        self._is_own = True
        node_of = placement_group_table(self.placement_group)["bundles_to_node_id"]
        nodes = list(dict.fromkeys(node_of[index] for index in range(bundles)))
        order = sorted(range(bundles), key=lambda index: nodes.index(node_of[index]))
        return [index for index in order for _ in range(per_bundle)]

    def shutdown(self) -> None:
        """End the workers, and give back what was reserved for them."""
        for worker in self.workers:
            ray.kill(worker)
        if self._is_own:
            remove_placement_group(self.placement_group)
        self.workers, self.placement_group, self._is_own = [], self._given, False


class ColocatedStrategy(BaseStrategy):
    """As many workers on each of some nodes.

    Parameters
    ----------
    settings : MiniSettings
        See ``RayExecutor.create_settings``.
    num_hosts, num_workers_per_host : int
        Nodes, and workers on each.
    use_gpu : bool
        Whether each takes GPUs.
    cpus_per_worker : float
        Ray's CPUs that each takes.
    gpus_per_worker : float, optional
        GPUs that each takes; by default one.
    """

    def __init__(
        self,
        *,
        settings: Any,
        num_hosts: int,
        num_workers_per_host: int = 1,
        use_gpu: bool = False,
        cpus_per_worker: float = 1,
        gpus_per_worker: float | None = None,
    ) -> None:
        gpus = (gpus_per_worker or 1) if use_gpu else 0
        super().__init__(settings, Demand(None, num_hosts, num_workers_per_host, cpus_per_worker, gpus))


class PGStrategy(BaseStrategy):
    """Workers wherever there is room: close together, or in a placement group that is there.

    Parameters
    ----------
    settings : MiniSettings
        See ``RayExecutor.create_settings``.
    num_workers : int
        How many.
    use_gpu : bool
        Whether each takes GPUs.
    cpus_per_worker : float
        Ray's CPUs that each takes.
    gpus_per_worker : float, optional
        GPUs that each takes; by default one.
    placement_group : PlacementGroup, optional
        The group; by default that which this process is in, if it is in one.
    force_create_placement_group : bool
        Whether to make one although this process is in one.
    """

    def __init__(
        self,
        *,
        settings: Any,
        num_workers: int,
        use_gpu: bool = False,
        cpus_per_worker: float = 1,
        gpus_per_worker: float | None = None,
        placement_group: PlacementGroup | None = None,
        force_create_placement_group: bool = False,
    ) -> None:
        demand = Demand(num_workers, None, 1, cpus_per_worker, (gpus_per_worker or 1) if use_gpu else 0)
        super().__init__(settings, demand, placement_group, use_current=not force_create_placement_group)
