"""Modules of Horovod's launcher that other code imports and that ours does not use itself."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from horovod.runner import gloo_run
from horovod.runner.common.service.compute_service import ComputeClient, ComputeService
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.common.util.network import (
    BasicClient,
    BasicService,
    NoValidAddressesFound,
    PingRequest,
    PingResponse,
    Wire,
)
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic import discovery, worker
from horovod.runner.elastic.discovery import FixedHosts, HostManager, HostState
from horovod.runner.elastic.worker import HostUpdateResult
from horovod.runner.http.http_client import put_data_into_kvstore, read_data_from_kvstore
from horovod.runner.http.http_server import KVStoreServer, RendezvousServer
from horovod.runner.util import network

KEY = b"k" * 32


@pytest.mark.parametrize(
    ("name", "module"),
    [
        *((f"common.service.{name}_service", f"{name}_service") for name in ("compute", "driver", "task")),
        *((f"common.util.{name}", name) for name in ("network", "safe_shell_exec")),
        *((f"elastic.{name}", name) for name in ("driver", "registration", "rendezvous")),
        *((f"http.{name}", name) for name in ("http_client", "http_server")), ("task_fn", "task_fn"),
        ("util.streams", "streams"),
    ],
)  # fmt: skip
def test_what_is_replaced_under_horovods_name_is_replaced(name: str, module: str) -> None:
    """A program may import it in either way, before or after, and change what is there."""
    program = f"import horovod.runner.{name} as a\nfrom horovod.runner.compat import {module} as b\nassert a is b\n"
    above, _, last = f"horovod.runner.{name}".rpartition(".")
    subprocess.run([sys.executable, "-c", f"{program}from {above} import {last}\nassert {last} is a"], check=True)


# --- services ---


class Doubling(BasicService):
    def __init__(self, key: bytes = KEY) -> None:
        super().__init__("doubling", key)

    def _handle(self, req: object, client_address: tuple[str, int]) -> object:
        return 2 * req if isinstance(req, int) else super()._handle(req, client_address)


def test_wire() -> None:
    stream = io.BytesIO()
    Wire(KEY).write({"a": [1, 2]}, stream)
    data = stream.getvalue()
    assert Wire(KEY).read(io.BytesIO(data)) == {"a": [1, 2]}
    with pytest.raises(ConnectionError, match="Security error: digest did not match the message"):
        Wire(b"another").read(io.BytesIO(data))
    with pytest.raises(EOFError, match="ended after"):
        Wire(KEY).read(io.BytesIO(data[:-1]))
    with pytest.raises(ConnectionError, match="says to have"):
        Wire(KEY).read(io.BytesIO(b"\x7f" * 40))


def test_a_service_answers_those_that_know_the_secret() -> None:
    service = Doubling()
    try:
        client = BasicClient("doubling", {**service.addresses(), "gone": [("127.0.0.1", 1)]}, KEY, 0, attempts=1)
        assert "gone" not in client.addresses()
        assert "lo" in BasicClient("doubling", service.addresses(), KEY, 0, match_intf=True).addresses()
        assert client._send(21) == 42
        pong = client._send(PingRequest())
        assert isinstance(pong, PingResponse)
        assert pong.service_name == "doubling"
        for name, key in (("another", KEY), ("doubling", b"another")):
            with pytest.raises(NoValidAddressesFound, match=f"unable to connect to {name} on any of these addresses"):
                BasicClient(name, service.addresses(), key, 0, attempts=1)
        with socket.create_connection(("127.0.0.1", service.get_port())) as stranger:
            asked = stranger.recv(32, socket.MSG_WAITALL)
            stranger.sendall(b"\xff" * 64)
            assert len(asked) == 32
            assert stranger.recv(1) == b""
        assert client._send(4) == 8
    finally:
        service.shutdown()
    with pytest.raises((OSError, EOFError)):
        client._send(4)


def test_notices_of_changed_hosts() -> None:
    heard: list[tuple[float, int]] = []

    class Listener:
        def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
            heard.append((timestamp, update_res))

    manager = worker.WorkerNotificationManager()
    manager.register_listener(Listener())
    service = worker.WorkerNotificationService(KEY, "lo", manager)
    assert set(service.addresses()) == {"lo"}
    client = worker.WorkerNotificationClient(service.addresses(), KEY, verbose=2)
    client.notify_hosts_updated(7.5, worker.HostUpdateResult.added)
    assert heard == [(7.5, worker.HostUpdateResult.added)]
    service.shutdown()


def test_a_data_services_dispatchers_and_workers() -> None:
    service = ComputeService(2, 1, KEY)
    try:
        client = ComputeClient(service.addresses(), KEY)
        found: list[str] = []
        waiting = threading.Thread(target=lambda: found.append(client.wait_for_dispatcher_registration(1, 60)))
        waiting.start()
        client.register_dispatcher(1, "grpc://here:5")
        waiting.join(60)
        assert found == ["grpc://here:5"]
        client.register_dispatcher(1, "grpc://here:5")
        with pytest.raises(ValueError, match="Dispatcher 1 is at grpc://here:5 already"):
            client.register_dispatcher(1, "grpc://there:5")
        with pytest.raises(IndexError, match="no dispatcher 2: there are 2"):
            client.register_dispatcher(2, "grpc://here:5")
        with pytest.raises(TimeoutException, match="waiting for the workers of dispatcher 0"):
            client.wait_for_dispatcher_worker_registration(0, 0.01)
        client.register_worker_for_dispatcher(0, 7)
        client.wait_for_dispatcher_worker_registration(0, 60)
        ending = threading.Thread(target=client.wait_for_shutdown)
        ending.start()
        client.shutdown()
        ending.join(60)
        assert not ending.is_alive()
    finally:
        service.shutdown()


# --- servers ---


@pytest.fixture
def no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_HOROVOD_SECRET_KEY", "")  # so that it is put back afterwards
    monkeypatch.delenv("_HOROVOD_SECRET_KEY")


@pytest.mark.usefixtures("no_secret")
def test_values_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="_HOROVOD_SECRET_KEY is not set"):
        read_data_from_kvstore("127.0.0.1", 1, "scope", "key")
    server = KVStoreServer()
    port = server.start_server()
    try:
        put_data_into_kvstore("127.0.0.1", port, "scope", "key", {"a": 1})
        assert read_data_from_kvstore("127.0.0.1", port, "scope", "key") == {"a": 1}
        with pytest.raises(RuntimeError, match="GET /scope/other at the KVStore server .* there is no such value"):
            read_data_from_kvstore("127.0.0.1", port, "scope", "other")
        monkeypatch.setenv("_HOROVOD_SECRET_KEY", "YW5vdGhlcg==")
        with pytest.raises(RuntimeError, match="PUT /scope/key .* do both ends have the same secret"):
            put_data_into_kvstore("127.0.0.1", port, "scope", "key", 0)
    finally:
        server.shutdown_server()


HELLO = """
from horovod.common.basics import HorovodBasics
hvd = HorovodBasics()
hvd.init()
print(hvd.rank(), hvd.size())
"""


@pytest.mark.usefixtures("no_secret")
def test_ranks_that_others_start_meet_at_the_rendezvous() -> None:
    """As code does that starts Horovod's workers by means of its own."""
    rendezvous = RendezvousServer(0)
    port = rendezvous.start()
    try:
        plan = get_host_assignments(parse_hosts("localhost:2"), 2)
        rendezvous.init(plan)
        with pytest.raises(ValueError, match="the plan is none of 1 ranks"):
            rendezvous.init(plan[:1])
        common = gloo_run.create_run_env_vars("127.0.0.1", ["lo"], port)
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", HELLO], stdout=subprocess.PIPE, text=True,
                env={**os.environ, **common, **gloo_run.create_slot_env_vars(slot)},
            )
            for slot in plan
        ]  # fmt: skip
        assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["0 2\n", "1 2\n"]
    finally:
        rendezvous.stop()


def test_addresses_of_this_host() -> None:
    assert "lo" in network.get_local_host_intfs()
    assert network.get_local_intfs() == network.get_local_intfs("lo") == {"lo"}
    assert network.get_local_intfs("eth99") == set()
    assert network.get_driver_ip(["lo"]) == "127.0.0.1"
    with pytest.raises(ValueError, match="'eth99' does not exist"):
        network.get_driver_ip(["eth99"])


# --- elastic ---


def test_hosts_that_come_and_go() -> None:
    found = FixedHosts({"a": 2, "b": 1})
    manager = HostManager(found)
    assert manager.update_available_hosts() == HostUpdateResult.added
    assert manager.update_available_hosts() == HostUpdateResult.no_update
    found.set({"c": 1, "b": 2, "a": 1})
    assert manager.update_available_hosts() == HostUpdateResult.mixed
    hosts = manager.current_hosts
    assert hosts.host_assignment_order == ["a", "b", "c"]
    assert (hosts.get_slots("b"), hosts.get_slots("d"), hosts.count_available_slots()) == (2, 0, 4)
    event = manager.get_host_event("b")
    manager.blacklist("b")
    assert event.is_set()
    assert manager.is_blacklisted("b")
    assert manager.current_hosts.available_hosts == {"a", "c"}
    assert hosts.available_hosts == {"a", "b", "c"}, "as they were then"
    found.set({"b": 2, "c": 1})
    assert manager.update_available_hosts() == HostUpdateResult.removed
    assert manager.current_hosts.host_assignment_order == ["c"]


def test_a_host_that_may_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(discovery, "time", SimpleNamespace(monotonic=lambda: now[0]))
    manager = HostManager(FixedHosts({"a": 1}), cooldown_range=(10, 20))
    manager.update_available_hosts()
    old = manager.get_host_event("a")
    manager.blacklist("a")
    assert manager.update_available_hosts() == HostUpdateResult.no_update
    assert manager.current_hosts.available_hosts == set()
    now[0] += 21
    assert manager.update_available_hosts() == HostUpdateResult.added
    assert manager.update_available_hosts() == HostUpdateResult.no_update
    assert manager.current_hosts.available_hosts == {"a"}
    assert old.is_set()
    assert not manager.get_host_event("a").is_set()
    with pytest.raises(ValueError, match="blacklist_cooldown_range"):
        HostState((0, 5))
