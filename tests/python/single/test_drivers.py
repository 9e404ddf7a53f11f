"""Drivers of jobs whose processes the caller starts: an elastic one, and one that runs a command on each host."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from horovod.runner.common.service.driver_service import BasicDriverClient, BasicDriverService
from horovod.runner.common.service.task_service import BasicTaskClient, BasicTaskService
from horovod.runner.common.util import codec, safe_shell_exec
from horovod.runner.common.util.hosts import INVALID_SLOT_INFO, SlotInfo
from horovod.runner.common.util.network import NoValidAddressesFound
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import Timeout, TimeoutException
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.driver import DISCOVER_HOSTS_FREQUENCY_SECS, ELASTIC_TIMEOUT_SECS, ElasticDriver
from horovod.runner.elastic.registration import FAILURE, SUCCESS, WorkerStateRegistry
from horovod.runner.elastic.rendezvous import create_rendezvous_handler
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
from horovod.runner.http.http_server import RendezvousServer
from horovod.runner.task_fn import DRIVER_NAME, task_name

KEY = b"k" * 32
SECONDS = 60.0
LIBRARIES = Path(__file__).resolve().parents[1] / "binding"

# Three steps; in the second, the worker of slot 1 that began first dies.
ELASTIC_PROGRAM = """
import os, sys
sys.path.insert(0, {libraries!r})
import arrays as hvd
import numpy as np
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.objects import broadcast_object

slot, flag = os.environ["HOROVOD_LOCAL_RANK"], {flag!r}

def reset():
    hvd.shutdown()
    hvd.init()

def train(state):
    while state.step < 3:
        total = hvd.synchronize(hvd.allreduce_async(np.ones(4, np.float32), "step"))
        if state.step == 1 and slot == "1" and not os.path.exists(flag):
            open(flag, "w").close()
            os._exit(9)
        state.step += 1
        state.commit()
    print("sum", int(total[0]), "step", state.step, "rank", hvd.rank(), flush=True)

hvd.init()
run_fn(train, reset)(ObjectState(broadcast_object, hvd.rank, step=0))
"""


class Rendezvous:
    """Stands where a driver needs none: its workers are threads."""

    def stop(self) -> None:
        """Nothing was started."""


def elastic(discovery: FixedHosts, **options: object) -> ElasticDriver:
    return ElasticDriver(Rendezvous(), discovery, 2, 4, timeout=SECONDS, **options)


def test_workers_that_are_threads_get_their_ranks() -> None:
    driver = elastic(FixedHosts({"a": 1, "b": 2}))
    told: dict[tuple[str, int], SlotInfo] = {}

    def work(info: SlotInfo, events: Sequence[threading.Event]) -> tuple[int, float]:
        assert len(events) == 2
        driver.record_ready(info.hostname, info.local_rank)
        told[info.hostname, info.local_rank] = driver.get_slot_info(info.hostname, info.local_rank)
        return 0, 7.0

    assert driver.wait_for_available_slots(3, min_hosts=2).count_available_slots() == 3
    driver.start(3, work)
    results = driver.get_results()
    assert results.error_message is None
    assert results.worker_results == {"a[0]": (0, 7.0), "b[0]": (0, 7.0), "b[1]": (0, 7.0)}
    assert {slot: (info.rank, info.size) for slot, info in told.items()} == {
        ("a", 0): (0, 3), ("b", 0): (1, 3), ("b", 1): (2, 3),
    }  # fmt: skip
    assert (driver.world_size(), driver.local_size("b"), driver.local_size("c")) == (3, 2, 0)
    assert driver.get_coordinator_info() == told["a", 0]
    assert driver.get_slot_info("b", 2) is INVALID_SLOT_INFO
    assert driver.finished()
    assert driver._registry.get(SUCCESS) == set(told)


def test_a_worker_that_fails_is_replaced_on_another_host() -> None:
    hosts = FixedHosts({"a": 1, "b": 1})
    driver = elastic(hosts)
    sizes: list[int] = []

    def work(info: SlotInfo, _: Sequence[threading.Event]) -> int:
        driver.record_ready(info.hostname, info.local_rank)
        if info.hostname == "b":
            hosts.set({"a": 1, "b": 1, "c": 1})
            raise ValueError("broken")
        if info.hostname == "a":
            driver.record_ready("a", 0)
        sizes.append(driver.world_size())
        return 0

    driver.start(2, work)
    results = driver.get_results()
    assert {name: status for name, (status, _) in results.worker_results.items()} == {"a[0]": 0, "b[0]": 1, "c[0]": 0}
    assert sizes == [2, 2]
    assert driver.get_available_hosts() == ["a", "b", "c"]


def test_a_driver_that_is_stopped_ends_its_workers_and_says_why() -> None:
    driver = elastic(FixedHosts({"a": 2}))
    driver.start(2, lambda _, events: 0 if events[0].wait(SECONDS) else 3)
    driver.resume()
    driver.stop("enough")
    results = driver.get_results()
    assert results.error_message == "enough"
    assert [status for status, _ in results.worker_results.values()] == [0, 0]
    with pytest.raises(RuntimeError, match=r"The job has ended\. enough"):
        driver.wait_for_available_slots(2)
    with pytest.raises(RuntimeError, match="was called before"):
        driver.start(2, lambda *_: 0)
    with pytest.raises(NotImplementedError, match="hears of changes over its line"):
        driver.register_worker_server("a", 0, {}, KEY)


def test_slots_that_do_not_come() -> None:
    driver = ElasticDriver(Rendezvous(), FixedHosts({"a": 1}), 2, None, timeout=0.1)
    with pytest.raises(TimeoutException, match=r"waiting for 2 slots on 1 host.*finds \{'a': 1\}"):
        driver.wait_for_available_slots(2)
    driver.stop()
    assert driver.finished()
    assert (DISCOVER_HOSTS_FREQUENCY_SECS, ELASTIC_TIMEOUT_SECS) == (1, 600)


def test_a_record_of_workers() -> None:
    registry = WorkerStateRegistry(None, None)
    registry.reset(2)
    registry.record_ready("a", 0)
    registry.record_failure("a", 0)
    assert registry.record_success("a", 1) == registry.last_rendezvous() == 1
    assert (registry.get(FAILURE), registry.count(SUCCESS), registry.size()) == ({("a", 0)}, 1, 2)
    assert registry.get_recorded_slots() == {("a", 0), ("a", 1)}
    registry.reset(1)
    assert registry.total_count() == 0


def test_workers_that_are_processes_survive_one_of_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As a launcher of somebody else's does it: by the variables alone."""
    program = tmp_path / "train.py"
    program.write_text(ELASTIC_PROGRAM.format(libraries=str(LIBRARIES), flag=str(tmp_path / "died")))
    rendezvous = RendezvousServer()
    driver = ElasticDriver(rendezvous, FixedHosts({"localhost": 2}), 2, 2, timeout=SECONDS, cooldown_range=(1, 2))
    port = rendezvous.start(create_rendezvous_handler(driver))

    def work(info: SlotInfo, events: Sequence[threading.Event]) -> tuple[int, float]:
        env = {**os.environ, **create_slot_env_vars(info), **create_run_env_vars("127.0.0.1", [], port, elastic=True)}
        status = safe_shell_exec.execute([sys.executable, str(program)], env, events=events)
        return status, time.time()

    driver.start(2, work)
    results = driver.get_results()
    driver.stop()
    told = sorted(capfd.readouterr().out.split("\n"))
    assert results.error_message is None, told
    assert {name: status for name, (status, _) in results.worker_results.items()} == {
        "localhost[0]": 0, "localhost[1]": 0,
    }  # fmt: skip
    assert [line for line in told if line.startswith("sum")] == [f"sum 2 step 3 rank {rank}" for rank in range(2)]
    assert (tmp_path / "died").exists()


# --- tasks ---


def serve(index: int, **options: object) -> tuple[BasicTaskService, BasicTaskClient]:
    task = BasicTaskService(task_name(index), index, KEY, ["lo"], **options)
    return task, BasicTaskClient(task_name(index), task.addresses(), KEY)


def test_a_task_runs_one_command() -> None:
    task, client = serve(3, command_env={"WHOSE": "task", "GONE": None})
    assert not task.check_for_command_start(0.0)
    with pytest.raises(TimeoutException, match="waiting for command to run"):
        task.wait_for_command_start(0.0)
    assert client.command_result() == (False, None)
    command = 'echo "$WHOSE $MINE"; echo wrong >&2; exit 4'
    client.run_command(command, {"MINE": "client"}, capture_stdout=True, capture_stderr=True)
    client.run_command("exit 1", {})  # not the first
    out, err = io.StringIO(), io.StringIO()
    for thread in client.stream_command_output(out, err):
        thread.join(SECONDS)
    assert (out.getvalue(), err.getvalue()) == ("[3]<stdout>:task client\n", "[3]<stderr>:wrong\n")
    assert client.wait_for_command_exit_code() == 4
    client.register_code_result({"loss": 0.5})
    assert task.fn_result() == {"loss": 0.5}
    assert client.command_terminated()
    assert task.command_terminated()
    task.wait_for_command_start(0.0)
    task.wait_for_command_termination()
    assert task.command_exit_code() == 4
    task.shutdown()


def test_a_command_is_ended() -> None:
    task, client = serve(0)
    client.run_command("sleep 600", {})
    assert client.stream_command_stdout(None) is None
    client.abort_command()
    assert client.wait_for_command_exit_code() == 128 + signal.SIGTERM
    task.shutdown()


def test_tasks_register_and_find_one_another() -> None:
    """Two processes of task_fn in a ring, and a driver."""
    driver = BasicDriverService(2, DRIVER_NAME, KEY, ["lo"])
    with pytest.raises(TimeoutException, match=r"tasks \[0, 1\] to register"):
        driver.wait_for_initial_registration(0.0)
    settings = Settings(num_proc=2, hosts="", nics=["lo"])
    settings.key = KEY  # type: ignore[attr-defined]
    described = [codec.dumps_base64(driver.addresses()), codec.dumps_base64(settings)]
    statuses: dict[int, int] = {}

    def run(index: int) -> None:
        command = [sys.executable, "-m", "horovod.runner.task_fn", str(index), "2", *map(str, described)]
        statuses[index] = safe_shell_exec.execute(command)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    driver.wait_for_initial_registration(Timeout(SECONDS, "{activity} took {timeout} s"))
    clients = [BasicTaskClient(task_name(index), driver.task_addresses_for_driver(index), KEY) for index in range(2)]
    for client in clients:
        client.notify_initial_registration_complete()
    driver.wait_for_task_to_task_address_updates(SECONDS)
    for thread in threads:
        thread.join()
    assert statuses == {0: 0, 1: 0}
    assert driver.get_common_interfaces() == {"lo"}
    assert list(driver.task_host_hash_indices().values()) == [[0, 1]]
    assert driver.task_index_host_hash(0) == driver.task_index_host_hash(1)
    assert driver.task_indices() == {0, 1}
    asked = BasicDriverClient(DRIVER_NAME, driver.addresses(), KEY)
    assert asked.all_task_addresses(1) == driver.all_task_addresses(1) == driver.task_addresses_for_tasks(1)
    with pytest.raises(NoValidAddressesFound):
        BasicDriverClient(DRIVER_NAME, driver.addresses(), b"another" * 4)
    driver.shutdown()
