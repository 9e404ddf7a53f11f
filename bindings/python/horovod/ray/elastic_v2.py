"""Discovery under the names of ``RayExecutor``'s arguments."""

from __future__ import annotations

from horovod.ray import elastic
from horovod.ray.elastic import TestDiscovery as TestDiscovery


class RayHostDiscovery(elastic.RayHostDiscovery):
    """Finds slots on the nodes of the cluster, each for a worker with so many CPUs and GPUs."""

    def __init__(self, use_gpu: bool = False, cpus_per_worker: float = 1, gpus_per_worker: float = 1) -> None:
        super().__init__(use_gpu, cpus_per_worker, gpus_per_worker)
