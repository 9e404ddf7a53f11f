"""A job on Ray goes on while nodes come and go. The last file: for some time Ray takes a dead node for living."""

from __future__ import annotations

from typing import Any

import pytest
import work
from horovod.ray import ElasticRayExecutor
from horovod.ray.elastic import RayHostDiscovery
from ray.cluster_utils import Cluster


class OneEach(RayHostDiscovery):
    """A worker on each node."""

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return dict.fromkeys(super().find_available_hosts_and_slots(), 1)


class Nodes:
    """Adds a node in training and later kills it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.extra = cluster, None
        self.sizes: list[int] = []
        self.pids: set[int] = set()

    def __call__(self, info: dict[str, Any]) -> None:
        if not self.sizes:
            self.extra = self.cluster.add_node(num_cpus=1, node_ip_address="127.0.0.3")
        self.pids.add(info["pid"])
        if info["size"] not in self.sizes[-1:]:
            self.sizes.append(info["size"])
        if info["size"] == 3 and self.extra is not None:
            self.cluster.remove_node(self.extra, allow_graceful=False)
            self.extra = None


def test_a_node_comes_and_a_node_dies_in_training(cluster: Cluster) -> None:
    settings = ElasticRayExecutor.create_settings(min_num_proc=2, timeout_s=120)
    settings.discovery = OneEach()
    executor = ElasticRayExecutor(settings, override_discovery=False)
    with pytest.raises(RuntimeError, match=r"Call start\(\) first"):
        executor.run(lambda: None)
    executor.start()
    nodes = Nodes(cluster)
    results = executor.run(work.train, callbacks=[nodes])
    assert [(rank, size) for rank, size, *_ in results] == [(0, 2), (1, 2)]
    assert nodes.sizes == [2, 3, 2]
    assert nodes.pids == {results[0][3]}  # a survivor's process never starts anew
    assert results[0][2] == results[1][2]
