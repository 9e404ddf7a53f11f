"""Jobs on Ray whose workers stay the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import ray
import work
from conftest import CLIENT_PORT
from horovod.ray import BaseHorovodWorker, RayExecutor
from horovod.ray.calls import WorkerDiedError
from horovod.ray.runner import Coordinator, MiniSettings
from horovod.ray.strategy import BaseStrategy, ColocatedStrategy, PGStrategy
from horovod.ray.utils import detect_nics, nics_to_env_var
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SETTINGS = RayExecutor.create_settings(timeout_s=120, placement_group_timeout_s=120)


@pytest.fixture
def executor(cluster: Cluster) -> Iterator[RayExecutor]:
    """Two workers that have been started."""
    made = RayExecutor(SETTINGS, num_workers=2)
    made.start()
    yield made
    made.shutdown()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"min_workers": 1, "num_workers": 1}, "not both"),
        ({"max_workers": 2}, "max_workers=2 needs min_workers"),
        ({"max_workers": 2, "min_workers": 0}, "max_workers=2 needs min_workers"),
        ({"num_workers": 1, "gpus_per_worker": 1}, "use_gpu is False"),
        ({"num_workers": 1, "gpus_per_worker": 0, "use_gpu": True}, "must be at least 1"),
        ({}, "Give one of"),
        ({"num_workers": 0}, "at least one is needed"),
        ({"num_workers": True}, "num_workers=True must be a whole number"),
        ({"num_hosts": 1.5}, "num_hosts=1.5 must be a whole number"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RayExecutor(SETTINGS, **arguments)


def test_settings() -> None:
    settings = RayExecutor.create_settings()
    assert isinstance(settings, MiniSettings)
    assert (settings.timeout_s, settings.placement_group_timeout_s, settings.nics) == (30, 100, None)
    assert 29 < settings.start_timeout.remaining() <= 30
    assert nics_to_env_var(detect_nics(settings)) == {}
    assert nics_to_env_var(["a", "b"]) == {"HOROVOD_GLOO_IFACE": "a", "NCCL_SOCKET_IFNAME": "a,b"}


def test_calls_of_all_workers(executor: RayExecutor) -> None:
    described = executor.run(work.describe)
    assert [each["rank"] for each in described] == [0, 1]
    assert [each["numbers"] for each in described] == [[0, 2, 0, 1], [1, 2, 0, 1]]
    assert [each["torch"] for each in described] == [["0", "2", "0"], ["1", "2", "1"]]
    assert described[0]["all"] == described[1]["all"] == [each["pid"] for each in described]
    for each in described:  # the secret is in no variable that other processes can read
        assert "_HOROVOD_SECRET_KEY" not in each["environment"]
        assert each["environment"]["MASTER_PORT"] == described[0]["environment"]["MASTER_PORT"]
    assert executor.run(lambda a, b: a - b, args=[7], kwargs={"b": 3}) == [4, 4]
    assert ray.get(executor.run_remote(work.gather, args=["x"])) == [["x", "x"], ["x", "x"]]
    assert executor.execute_single(lambda made: (made, os.environ["HOROVOD_RANK"])) == (None, "0")
    with pytest.raises(RuntimeError, match="have been started"):
        executor.start()

    logged: list[dict[str, int]] = []
    executor.run(work.log_steps, args=[3], callbacks=[logged.append])
    assert [info["step"] for info in logged if info["rank"] == 1] == [0, 1, 2]
    assert len(logged) == 6
    assert executor.run(work.log_steps, args=[3]) == [None, None]


def test_a_worker_that_fails_is_named_and_nobody_waits_for_it(executor: RayExecutor) -> None:
    with pytest.raises(ValueError, match="not today") as caught:
        executor.run(work.fail_on, args=[1, ValueError("not today")])
    assert "HorovodWorker(rank=1)" in str(caught.value)
    assert "in fail_on" in str(caught.value)  # its traceback
    # The others' engines have ended with it; all start anew.
    assert executor.run(work.gather, args=[5]) == [[5, 5], [5, 5]]
    # An error of all leaves the engines as they are.
    before = executor.run(work.describe)
    with pytest.raises(ZeroDivisionError, match="rank=0"):
        executor.run(lambda: 1 // 0)
    assert executor.run(lambda: work.gather(1)) == [[1, 1], [1, 1]]
    # All start anew, too, after a call of one, and after calls that nobody but the caller saw the end of.
    with pytest.raises(ZeroDivisionError, match="rank=0"):
        executor.execute_single(lambda _: 1 // 0)
    assert executor.run(work.gather, args=[6]) == [[6, 6], [6, 6]]
    with pytest.raises(Exception, match="not now"):
        ray.get(executor.run_remote(work.fail_on, args=[1, ValueError("not now")]))
    assert executor.run(work.gather, args=[7]) == [[7, 7], [7, 7]]

    with pytest.raises(WorkerDiedError, match="Worker 0 died") as died:
        executor.run(work.fail_on, args=[0, None])
    assert died.value.rank == 0
    with pytest.raises(WorkerDiedError, match=r"Worker 0 died(.|\n)*shutdown\(\) and start\(\)"):
        executor.run(work.gather, args=[1])
    executor.shutdown()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        executor.run(work.gather, args=[1])
    executor.start()
    after = executor.run(work.describe)
    assert {each["pid"] for each in before}.isdisjoint(each["pid"] for each in after)


def test_workers_on_each_node_with_objects(cluster: Cluster) -> None:
    executor = RayExecutor(SETTINGS, num_hosts=2, num_workers_per_host=2)
    executor.start(work.Counter, [10], {"step": 5}, extra_env_vars={"COLOUR": "green"})
    try:
        assert executor.execute(lambda counter: counter.count()) == [60] * 4
        assert executor.execute_single(lambda counter: counter.value) == 15
        described = executor.run(work.describe)
        assert [each["numbers"] for each in described] == [[0, 2, 0, 2], [1, 2, 0, 2], [0, 2, 1, 2], [1, 2, 1, 2]]
        nodes = [each["node"] for each in described]
        assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
        assert {each["environment"]["COLOUR"] for each in described} == {"green"}
    finally:
        executor.shutdown()


def test_gpus_of_a_node_are_seen_by_all_its_workers(cluster: Cluster) -> None:
    executor = RayExecutor(SETTINGS, num_workers=2, use_gpu=True)
    executor.start()
    try:
        seen = executor.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
        assert seen[0] == seen[1]
        assert sorted(seen[0].split(",")) == ["0", "1"]
    finally:
        executor.shutdown()


def test_what_hinders_a_start_is_named(cluster: Cluster) -> None:
    impatient = RayExecutor.create_settings(placement_group_timeout_s=0.5)
    with pytest.raises(TimeoutError, match=r"50 bundles of \{'CPU': 1\} by PACK"):
        RayExecutor(impatient, num_workers=50).start()
    executor = RayExecutor(SETTINGS, num_workers=2)
    with pytest.raises(WorkerDiedError, match="Worker 1 died"):
        executor.start(work.EndsAtOnce)
    with pytest.raises(TypeError, match="rank=0"):
        executor.start(work.Counter)  # whose start is missing
    executor.start()  # what was begun has been taken back
    executor.shutdown()


def test_the_placement_group_that_the_driver_is_in(cluster: Cluster) -> None:
    group = ray.util.placement_group([{"CPU": 1}] * 3)
    try:
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        task = ray.remote(work.run_in_group).options(num_cpus=1, scheduling_strategy=strategy)
        found = ray.get(task.remote(2, 120))
        assert {used for used, _ in found} == {group.id.hex()}
        assert len(set(found[0][1])) == 2
        with pytest.raises(TimeoutError, match="of 4 workers have not started within 1.5 s"):
            ray.get(task.remote(4, 1.5))
    finally:
        ray.util.remove_placement_group(group)


def test_strategies_place_workers(cluster: Cluster) -> None:
    """Two on each node; or in a group that is there, which stays; or in one of their own."""

    def nodes_of(strategy: BaseStrategy) -> list[str]:
        workers, firsts = strategy.create_workers()
        nodes = ray.get([worker.node_id.remote() for worker in workers])
        assert ray.get([worker.node_id.remote() for worker in firsts]) == list(dict.fromkeys(nodes))
        return nodes

    spread = ColocatedStrategy(settings=SETTINGS, num_hosts=2, num_workers_per_host=2)
    nodes = nodes_of(spread)
    assert (spread.num_workers, nodes[0], nodes[2], len(set(nodes))) == (4, nodes[1], nodes[3], 2)
    own = spread.placement_group
    spread.shutdown()
    assert ray.util.placement_group_table(own)["state"] == "REMOVED"
    group = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    packed = PGStrategy(settings=SETTINGS, num_workers=2, placement_group=group)
    assert len(set(nodes_of(packed))) == 2
    packed.shutdown()
    assert ray.util.placement_group_table(group)["state"] == "CREATED"
    ray.util.remove_placement_group(group)


def test_code_that_only_sets_variables(cluster: Cluster) -> None:
    """As Ray's own trainer for Horovod does: a coordinator, and workers of its own."""
    actor = ray.remote(BaseHorovodWorker).options(num_cpus=1)
    workers = [actor.remote(rank, 2) for rank in range(2)]
    coordinator = Coordinator(MiniSettings())
    try:
        for rank, worker in enumerate(workers):
            coordinator.register(*ray.get([worker.hostname.remote(), worker.node_id.remote()]), rank)
        assert (coordinator.world_size, len(coordinator.hostnames)) == (2, 1)
        slots = Counter(coordinator.node_id_by_rank.values())  # Ray may have placed them on two nodes
        assert coordinator.node_id_string == ",".join(f"{node}:{count}" for node, count in slots.items())
        for rank, variables in coordinator.finalize_registration().items():
            here = slots[coordinator.node_id_by_rank[rank]]
            local_rank = rank if here == 2 else 0
            assert (variables["HOROVOD_LOCAL_RANK"], variables["HOROVOD_LOCAL_SIZE"]) == (local_rank, here)
            ray.get(workers[rank].update_env_vars.remote(variables))
        rendezvous = coordinator.establish_rendezvous()
        ray.get([worker.update_env_vars.remote(rendezvous) for worker in workers])
        calls = [worker.execute.remote(lambda _: work.gather(os.environ["HOROVOD_RANK"])) for worker in workers]
        assert ray.get(calls) == [["0", "1"], ["0", "1"]]
    finally:
        coordinator.stop()
        for worker in workers:
            ray.kill(worker)


CLIENT = """
import sys
import ray
ray.init("ray://127.0.0.1:" + sys.argv[1], log_to_driver=False)
from horovod.ray import RayExecutor
executor = RayExecutor(RayExecutor.create_settings(), num_workers=2)
executor.start()

def rank():
    from horovod.common.basics import HorovodBasics
    HorovodBasics().init()
    return HorovodBasics().rank()

def broken():
    raise ValueError("not today")

print("ranks", executor.run(rank), ray.get(executor.run_remote(rank)), executor.execute_single(lambda _: rank()))
try:
    executor.run(broken)
except ValueError as error:
    print("error", "HorovodWorker(rank=0)" in str(error))
executor.shutdown()
ray.shutdown()
"""


def test_a_driver_outside_of_the_cluster(cluster: Cluster) -> None:
    pytest.importorskip("grpc", reason="Ray Client needs grpcio")
    command = [sys.executable, "-c", CLIENT, str(CLIENT_PORT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert "ranks [0, 1] [0, 1] 0\nerror True\n" in done.stdout, done.stdout + done.stderr
