"""Helpers of Horovod's launcher that other code imports."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import horovod
import psutil
import pytest
from horovod.runner import launch
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.common.util.host_hash import _hash, host_hash
from horovod.runner.common.util.secret import (
    DIGEST_LENGTH,
    SECRET_LENGTH,
    check_digest,
    compute_digest,
    make_secret_key,
)
from horovod.runner.util import network
from horovod.runner.util.streams import Pipe
from horovod.runner.util.threads import execute_function_multithreaded, in_thread, on_event


def wait_for(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_in_thread() -> None:
    got = []
    thread = in_thread(lambda *args: got.append(args), (1, 2), name="worker", daemon=False)
    thread.join()
    assert (got, thread.name, thread.daemon) == ([(1, 2)], "worker", False)
    in_thread(lambda: 1 / 0, silent=True).join()
    with pytest.raises(ValueError, match="args must be a tuple"):
        in_thread(print, "text")


def test_on_event() -> None:
    event, stop, got = threading.Event(), threading.Event(), []
    waiting = [on_event(event, got.append, ("called",)), on_event(event, got.append, ("called",), stop=stop)]
    event.set()
    for thread in waiting:
        thread.join(10)
    assert got == ["called", "called"]
    stop.set()
    stopped = on_event(threading.Event(), got.append, ("not called",), stop=stop, check_stop_interval_s=0.01)
    stopped.join(10)
    assert not stopped.is_alive()
    assert got == ["called", "called"]
    with pytest.raises(ValueError):
        on_event(None, print)


def test_execute_function_multithreaded() -> None:
    assert execute_function_multithreaded(pow, [(2, 3), (3, 2), (1, 1)], max_concurrent_executions=2) == {
        0: 8,
        1: 9,
        2: 1,
    }
    assert execute_function_multithreaded(pow, []) == {}
    with pytest.raises(ZeroDivisionError):
        execute_function_multithreaded(divmod, [(1, 1), (1, 0)])
    done = threading.Event()
    assert execute_function_multithreaded(done.set, [()], block_until_all_done=False) is None
    assert done.wait(10)


def test_host_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _hash("test") == hashlib.md5(b"test").hexdigest()  # noqa: S324
    plain = host_hash()
    assert plain == host_hash()
    assert re.fullmatch(r"[^.]+-[0-9a-f]{32}", plain)
    assert host_hash("salt") != plain
    monkeypatch.setenv("CONTAINER_ID", "another")
    assert host_hash() != plain


def test_pipe() -> None:
    pipe = Pipe()
    writer = in_thread(lambda: [pipe.write("first"), pipe.write("second"), pipe.close()])
    assert [pipe.read(2), pipe.read(), pipe.read(), pipe.read()] == ["fi", "rst", "second", None]
    writer.join(10)
    with pytest.raises(RuntimeError):
        pipe.write("more")
    assert Pipe().read(timeout=0.01) is None


def test_output_of_a_command() -> None:
    out, err = io.StringIO(), io.StringIO()
    command = r"printf 'one\n\303\244\nrest'; echo $NAME >&2; exit 3"
    assert safe_shell_exec.execute(command, {"NAME": "value"}, out, err, index=4) == 3
    assert out.getvalue() == "[4]<stdout>:one\n[4]<stdout>:\u00e4\n[4]<stdout>:rest"
    assert err.getvalue() == "[4]<stderr>:value\n"
    out = io.StringIO()
    assert safe_shell_exec.execute("echo text", stdout=out) == 0
    assert out.getvalue() == "text\n"
    out = io.StringIO()
    safe_shell_exec.execute("echo text", stdout=out, index=0, prefix_output_with_timestamp=True)
    assert re.fullmatch(r"\w+ +\w+ +\d+ \d+:\d+:\d+ \d+\[0\]<stdout>:text\n", out.getvalue())


def test_lines_of_a_connection() -> None:
    reader, writer = multiprocessing.Pipe(duplex=False)
    os.write(writer.fileno(), b"one\rtwo\nrest")
    writer.close()
    out = io.StringIO()
    safe_shell_exec.prefix_connection(reader, out, "name", 7, False)
    assert (out.getvalue(), reader.closed) == ("[7]<name>:one\r[7]<name>:two\n[7]<name>:rest", True)


def test_digests() -> None:
    key, message = make_secret_key(), b"a message"
    digest = compute_digest(key, message)
    assert (len(key), len(digest)) == (SECRET_LENGTH, DIGEST_LENGTH)
    assert check_digest(key, message, digest)
    assert not check_digest(key, b"another", digest)
    assert not check_digest(make_secret_key(), message, digest)


def test_what_is_built_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        launch.check_build(verbose=False)
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"Horovod v{horovod.__version__}:\n\nAvailable Frameworks:\n    [")


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_event_ends_a_command_and_its_children(monkeypatch: pytest.MonkeyPatch, stubborn: bool) -> None:
    assert safe_shell_exec.GRACEFUL_TERMINATION_TIME_S == 5
    monkeypatch.setattr(safe_shell_exec, "GRACEFUL_TERMINATION_TIME_S", 0.5)
    event, out, codes = threading.Event(), io.StringIO(), []
    trap = "trap '' TERM; " if stubborn else ""
    command = f"{trap}sleep 100 & echo $!; wait; sleep 100"
    running = in_thread(lambda: codes.append(safe_shell_exec.execute(command, stdout=out, events=[event])))
    wait_for(lambda: out.getvalue().endswith("\n"))
    event.set()
    running.join(10)
    assert codes == [128 + (signal.SIGKILL if stubborn else signal.SIGTERM)]
    child = int(out.getvalue())
    wait_for(lambda: has_ended(child))


def test_nothing_is_left_when_the_caller_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "from horovod.runner.common.util.safe_shell_exec import execute;"
        f"execute('sleep 100 & echo $! > {note}.part; mv {note}.part {note}; wait')"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    wait_for(note.exists, 30)
    child = int(note.read_text())
    wait_for(lambda: len(psutil.Process(caller.pid).children()) == 2, 30)  # the command, and who watches over it
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    wait_for(lambda: has_ended(child))


def test_this_host_is_local_where_no_name_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolve_host_address", lambda _: None)
    names = ["localhost", socket.gethostname(), "nowhere.invalid"]
    assert network.filter_local_addresses(names) == ["nowhere.invalid"]


def test_a_machine_without_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "1", "-H", "192.0.2.77:1", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "horovodrun: Host 192.0.2.77 is reached by ssh, which is not there" in done.stderr
    assert "--rsh-agent" in done.stderr
