"""Jobs on Ray that go on while nodes come and go."""

from __future__ import annotations

from typing import Any

import pytest
import ray
import work
from horovod.ray import ElasticRayExecutor, RayExecutor
from horovod.ray.elastic import RayHostDiscovery
from horovod.ray.elastic_v2 import RayHostDiscovery as RayHostDiscoveryOfWorkers
from ray.cluster_utils import Cluster


def test_slots_of_nodes(cluster: Cluster) -> None:
    head = ray.util.get_node_ip_address()
    assert RayHostDiscovery().find_available_hosts_and_slots() == {head: 4, "127.0.0.2": 2}
    assert RayHostDiscovery(cpus_per_slot=4).find_available_hosts_and_slots() == {head: 1}
    assert RayHostDiscoveryOfWorkers(use_gpu=True).find_available_hosts_and_slots() == {head: 2}


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


def test_workers_by_numbers_at_least_and_at_most(cluster: Cluster) -> None:
    settings = RayExecutor.create_settings(timeout_s=120)
    executor = RayExecutor(settings, min_workers=1, max_workers=2, reset_limit=0)
    executor.start(work.Counter, [10])
    with pytest.raises(NotImplementedError, match="run_remote"):
        executor.run_remote(work.gather, args=[1])
    with pytest.raises(NotImplementedError, match="execute_single"):
        executor.execute_single(lambda counter: counter)
    logged: list[dict[str, int]] = []
    counted = executor.execute(lambda counter: (counter.count(), work.log_steps(3)), callbacks=[logged.append])
    assert counted == [(22, None), (22, None)]
    assert sorted((info["rank"], info["step"]) for info in logged) == [(r, s) for r in range(2) for s in range(3)]
    with pytest.raises(ValueError, match="not today") as caught:
        executor.run(work.fail_on, args=[0, ValueError("not today")])
    assert "in fail_on" in str(caught.value)
    executor.shutdown()
