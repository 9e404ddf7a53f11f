"""Where the workers of a job are placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


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
    """What workers are asked for.

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

    @property
    def total(self) -> int:
        """Workers in all."""
        return self.num_workers or (self.num_hosts or 0) * self.workers_per_host

    def resources(self, workers: int = 1) -> dict[str, float]:
        """Return what so many workers need."""
        gpus = {"GPU": self.gpus * workers} if self.gpus else {}
        return {"CPU": self.cpus * workers, **gpus}


class Placement:
    """The options of every worker's actor, in the order of their ranks; their resources are reserved.

    Attributes
    ----------
    options : list of dict
        For ``ray.remote(...).options``.
    ranks_are_known : bool
        False where Ray chooses among the bundles of a group that was there before: then the nodes decide.
    """

    def __init__(self, demand: Demand, existing: PlacementGroup | None, timeout: float) -> None:
        self._own: PlacementGroup | None = None
        self.ranks_are_known = existing is None
        chosen = [(existing, -1)] * demand.total if existing is not None else self._reserve(demand, timeout)
        needs: dict[str, Any] = {"num_cpus": demand.cpus, "num_gpus": demand.gpus}
        self.options = [
            {
                **needs,
                "scheduling_strategy": PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=index, placement_group_capture_child_tasks=False
                ),
            }
            for group, index in chosen
        ]

    def _reserve(self, demand: Demand, timeout: float) -> list[tuple[PlacementGroup, int]]:
        if demand.num_workers:
            bundles, per_bundle, strategy = demand.num_workers, 1, "PACK"
        else:
            bundles, per_bundle, strategy = demand.num_hosts or 0, demand.workers_per_host, "STRICT_SPREAD"
        self._own, _ = create_placement_group(demand.resources(per_bundle), bundles, timeout, strategy)
        node_of = placement_group_table(self._own)["bundles_to_node_id"]
        nodes = list(dict.fromkeys(node_of[index] for index in range(bundles)))
        # Ranks of a node follow one another.
        order = sorted(range(bundles), key=lambda index: nodes.index(node_of[index]))
        return [(self._own, index) for index in order for _ in range(per_bundle)]

    def release(self) -> None:
        """Give back what was reserved here."""
        if self._own is not None:
            remove_placement_group(self._own)
            self._own = None
