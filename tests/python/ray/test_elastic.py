"""Jobs on Ray whose workers may change."""

from __future__ import annotations

import pytest
import ray
import work
from horovod.ray import RayExecutor
from horovod.ray.elastic import RayHostDiscovery, TestDiscovery
from horovod.ray.elastic_v2 import RayHostDiscovery as RayHostDiscoveryOfWorkers
from ray.cluster_utils import Cluster


def test_slots_of_nodes(cluster: Cluster) -> None:
    head = ray.util.get_node_ip_address()
    assert RayHostDiscovery().find_available_hosts_and_slots() == {head: 4, "127.0.0.2": 2}
    assert RayHostDiscovery(cpus_per_slot=4).find_available_hosts_and_slots() == {head: 1}
    assert RayHostDiscoveryOfWorkers(use_gpu=True).find_available_hosts_and_slots() == {head: 2}


def test_nodes_that_are_said_to_come_and_go(cluster: Cluster) -> None:
    discovery = TestDiscovery(min_hosts=1, max_hosts=2, change_frequency_s=0)
    told = [discovery.find_available_hosts_and_slots() for _ in range(40)]
    assert {len(hosts) for hosts in told} == {1, 2}
    assert all(hosts.items() <= RayHostDiscovery().find_available_hosts_and_slots().items() for hosts in told)
    assert any(before != after for before, after in zip(told, told[1:]))
    seldom = TestDiscovery(1, 2, change_frequency_s=3600)
    assert len({str(seldom.find_available_hosts_and_slots()) for _ in range(5)}) == 1
    with pytest.raises(ValueError, match="min_hosts=3 must be at least 1"):
        TestDiscovery(3, 2, 1)


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
