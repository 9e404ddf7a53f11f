"""Who does not know the secret gets nothing, and holds little; whoever does gets an answer to the last request."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from horovod.observe.top import Metrics
from horovod.runner.common.service.compute_service import ComputeClient, ComputeService
from horovod.runner.common.service.driver_service import BasicDriverService
from horovod.runner.common.service.task_service import BasicTaskClient, BasicTaskService
from horovod.runner.common.util.network import BasicClient, BasicService, NoValidAddressesFound, PingRequest
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.http.http_client import put_data_into_kvstore
from horovod.runner.http.http_server import KVStoreServer
from horovod.runner.util import door
from horovod.runner.util.wire import PROOF_BYTES, Wire, prove

KEY = b"k" * 32
SECONDS = 60.0


@contextlib.contextmanager
def serving(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Callable[[], object]]]:
    """Yield the port of a server, and what asks it something that it answers."""
    if kind == "store":
        monkeypatch.setenv("_HOROVOD_SECRET_KEY", "aw==")
        store = KVStoreServer()
        port = store.start_server()
        yield port, lambda: put_data_into_kvstore("127.0.0.1", port, "a", "b", 1)
        store.shutdown_server()
    elif kind == "metrics":
        metrics = Metrics(None, "127.0.0.1", 0)
        yield metrics.port, lambda: urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics").read()  # noqa: S310
        metrics.close()
    else:
        services = {"basic": lambda: BasicService("basic", KEY), "driver": lambda: BasicDriverService(2, "driver", KEY),
                    "task": lambda: BasicTaskService("task", 0, KEY)}  # fmt: skip
        service = services[kind]()
        yield service.get_port(), lambda: BasicClient(kind, service.addresses(), KEY, attempts=1)
        service.shutdown()


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


def is_hung_up_on(stranger: socket.socket) -> bool:
    stranger.settimeout(SECONDS)
    try:
        while stranger.recv(1 << 16):
            continue
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("kind", ["basic", "driver", "task", "store", "metrics"])
def test_strangers_get_no_thread_and_no_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(kind, monkeypatch) as (port, ask), contextlib.ExitStack() as stack:
        threads = threading.active_count()
        for _ in range(20):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(ConnectionError):
                for _ in range(64):  # before, all of this was kept
                    stranger.sendall(bytes(1 << 18))
            assert is_hung_up_on(stranger)
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        ask()
        wait_until(lambda: threading.active_count() <= threads)  # those of the answers end


def test_the_oldest_stranger_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_MOST_STRANGERS", 4)
    with serving("basic", monkeypatch) as (port, ask), contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
        assert is_hung_up_on(strangers[0])
        assert strangers[4].recv(32)
        ask()


FEW_DESCRIPTORS = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from horovod.runner.common.util.network import BasicService
service = BasicService("basic", b"k" * 32)
print(service.get_port(), flush=True)
sys.stdin.read()
held = [socket.socket() for _ in range(30)]  # what the process itself needs is left
service.shutdown()
"""


def test_strangers_leave_descriptors_to_who_knows_the_secret() -> None:
    command = [sys.executable, "-c", FEW_DESCRIPTORS]
    with contextlib.ExitStack() as stack:
        pipe = subprocess.PIPE
        served = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        port = int(served.stdout.readline())
        strangers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
        for _ in range(5):
            assert BasicClient("basic", {"lo": [("127.0.0.1", port)]}, KEY).addresses()
        assert is_hung_up_on(strangers[0])
        served.stdin.close()
        assert served.wait(SECONDS) == 0


@pytest.mark.parametrize("kind", ["basic", "metrics"])
def test_a_stranger_has_one_deadline_for_all_that_it_says(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STRANGER_SECONDS", 0.3)
    limit = time.monotonic() + SECONDS
    with serving(kind, monkeypatch) as (port, _), socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.settimeout(0.05)
        with pytest.raises(ConnectionError):
            while time.monotonic() < limit:
                stranger.send(b"\0")
                with contextlib.suppress(socket.timeout):
                    if not stranger.recv(64):
                        raise ConnectionError


def test_what_was_heard_elsewhere_proves_nothing() -> None:
    """A stranger that reads the network repeats a whole conversation."""
    service = BasicService("basic", KEY)
    said: list[bytes] = []

    class Listening(socket.socket):
        def sendall(self, data: bytes, *args: int) -> None:
            said.append(bytes(data))
            super().sendall(data, *args)

    with Listening() as connection:
        connection.connect(("127.0.0.1", service.get_port()))
        prove(connection, KEY, SECONDS)
        message = io.BytesIO()
        Wire(KEY).write(PingRequest(), message)
        connection.sendall(message.getvalue())
        assert connection.recv(1)
    with socket.create_connection(("127.0.0.1", service.get_port())) as stranger:
        asked = stranger.recv(32, socket.MSG_WAITALL)
        stranger.sendall(b"".join(said))
        assert len(asked) == 32
        with contextlib.suppress(ConnectionError):
            assert stranger.recv(1) == b""
    service.shutdown()


def test_an_impostor_hears_no_request() -> None:
    heard: list[bytes] = []

    def pretend(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(bytes(32))
            heard.append(connection.recv(PROOF_BYTES, socket.MSG_WAITALL))
            connection.sendall(bytes(32))
            heard.append(connection.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as server:
        impostor = threading.Thread(target=pretend, args=(server,), daemon=True)
        impostor.start()
        with pytest.raises(NoValidAddressesFound):
            BasicClient("basic", {"lo": [server.getsockname()]}, KEY, attempts=1)
        impostor.join(SECONDS)
    assert [len(each) for each in heard] == [PROOF_BYTES, 0]


@pytest.mark.parametrize("said", [b"GET /metrics HTTP/1.0\r\n\r\n", b"GET /metrics?a=b HTTP/1.1\nHost: x\n\n"])
def test_metrics_are_handed_out(said: bytes) -> None:
    metrics = Metrics(None, "127.0.0.1", 0)
    metrics.tell([])
    with socket.create_connection(("127.0.0.1", metrics.port)) as scraper, scraper.makefile("rb") as answer:
        for each in said:
            scraper.sendall(bytes([each]))
        head, _, body = answer.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert body.startswith(b"# HELP roda_operations_total")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metricsx")  # noqa: S310
    metrics.close()


# --- requests under way ---


def task() -> tuple[BasicTaskService, BasicTaskClient]:
    service = BasicTaskService("task", 0, KEY, ["lo"])
    return service, BasicTaskClient("task", service.addresses(), KEY, attempts=1)


def later(target: Callable[..., object], *args: object) -> tuple[threading.Thread, list[object]]:
    """Call something in a thread; what it returns or raises is in the list when that has ended."""
    told: list[object] = []

    def run() -> None:
        try:
            told.append(target(*args))
        except Exception as error:  # whatever it is
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, told


def test_a_service_ends_after_its_last_answer(tmp_path: Path) -> None:
    service, client = task()
    os.mkfifo(tmp_path / "gate")
    asking, answer = later(client.wait_for_command_exit_code)
    client.run_command(f"read line < {tmp_path}/gate; exit 7", {})
    wait_until(lambda: len(service._under_way) == 1)
    ending, _ = later(service.shutdown)
    wait_until(lambda: service._is_ending)
    assert ending.is_alive()
    (tmp_path / "gate").write_text("go\n")
    ending.join(SECONDS)
    assert not ending.is_alive()
    asking.join(SECONDS)
    assert answer == [7]


def test_output_that_is_asked_for_before_the_command() -> None:
    service, client = task()
    out, err = io.StringIO(), io.StringIO()
    threads = client.stream_command_output(out, err)
    wait_until(lambda: len(service._under_way) == 2)
    client.run_command("seq 20000; echo last >&2", {}, capture_stdout=True, capture_stderr=True)
    assert client.wait_for_command_exit_code() == 0
    for thread in threads:
        thread.join(SECONDS)
    assert out.getvalue().splitlines() == [f"[0]<stdout>:{number}" for number in range(1, 20001)]
    assert err.getvalue() == "[0]<stderr>:last\n"
    service.shutdown()


def test_a_command_goes_on_without_who_asked_for_its_output() -> None:
    class Gone:
        def write(self, _: str) -> None:
            raise OSError("the disk is full")

    service, client = task()
    asked = client.stream_command_stdout(Gone())
    client.run_command("seq 200000", {}, capture_stdout=True)
    assert client.wait_for_command_exit_code() == 0
    asked.join(SECONDS)
    service.shutdown()


def test_a_task_ends_that_is_asked_for_a_command_that_never_comes() -> None:
    service, client = task()
    streaming = client.stream_command_stdout(io.StringIO())
    waiting, told = later(client.wait_for_command_exit_code, 0.0)
    wait_until(lambda: len(service._under_way) == 2)
    service.shutdown()
    waiting.join(SECONDS)
    streaming.join(SECONDS)
    assert not waiting.is_alive()
    assert not streaming.is_alive()
    assert isinstance(told[0], (OSError, EOFError))


def test_output_that_nobody_can_ask_for_any_more_holds_no_command_up() -> None:
    service, client = task()
    waiting, told = later(client.wait_for_command_exit_code)
    client.run_command("seq 200000", {}, capture_stdout=True)
    wait_until(lambda: len(service._under_way) == 1)
    service.shutdown()
    waiting.join(SECONDS)
    assert told == [0]


def test_a_data_service_that_ends_tells_those_that_wait() -> None:
    service = ComputeService(1, 1, KEY)
    client = ComputeClient(service.addresses(), KEY)
    waits = [later(client.wait_for_dispatcher_registration, 0, 600.0), later(client.wait_for_shutdown)]
    wait_until(lambda: len(service._under_way) == 2)
    service.shutdown()
    for thread, _ in waits:
        thread.join(SECONDS)
    (first,), (second,) = (told for _, told in waits)
    assert isinstance(first, TimeoutException)
    assert "ended while dispatcher 0 had not come" in str(first)
    assert second is None


def test_a_service_that_a_request_ends() -> None:
    class Ending(BasicService):
        def _handle(self, req: object, client_address: tuple[str, int]) -> object:
            if req == "end":
                self.shutdown()
                return "over"
            return super()._handle(req, client_address)

    service = Ending("ending", KEY)
    assert BasicClient("ending", service.addresses(), KEY, attempts=1)._send("end") == "over"


@pytest.mark.parametrize("number", range(20))
def test_the_last_answer_is_out_when_a_service_has_ended(number: int) -> None:
    """As tasks in a ring do it: a request, of which the service's owner hears, is the service's last."""
    heard = threading.Event()

    class Found(BasicService):
        def _handle(self, req: object, client_address: tuple[str, int]) -> object:
            if req != number:
                return super()._handle(req, client_address)
            heard.set()
            return "found"

    service = Found("found", KEY)
    client = BasicClient("found", service.addresses(), KEY, attempts=1)
    asking, told = later(client._send, number)
    assert heard.wait(SECONDS)
    service.shutdown()
    assert not service._under_way
    asking.join(SECONDS)
    assert told == ["found"]
