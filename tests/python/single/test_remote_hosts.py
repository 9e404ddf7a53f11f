"""Jobs on hosts that a remote shell reaches: a script that runs the commands here stands in for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import FIELDS, PYTHON, Launch, alive, sh
from horovod.runner import gloo_run
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.settings import ElasticSettings


def agent_script(folder: Path) -> str:
    """A stand-in for ssh: runs the command here, in a shell, like the host would."""
    script = folder / "agent"
    script.write_text(
        '#!/bin/sh\nhost=$1; shift\necho Welcome to $host\nREMOTE_HOST=$host; export REMOTE_HOST\nexec sh -c "$*"\n'
    )
    script.chmod(0o755)
    return str(script)


# Addresses for documentation: never local, never reached, because the agent runs the commands here.
HOSTS = "203.0.113.1:2,203.0.113.2:1"


def test_hosts_through_a_remote_shell(horovodrun: Launch, tmp_path: Path) -> None:
    fields = " ".join(f"$HOROVOD_{name}" for name in FIELDS)
    done = horovodrun(
        "--rsh-agent", agent_script(tmp_path), "-np", "3", "-H", HOSTS, "--network-interfaces", "lo",
        *sh(f"echo $REMOTE_HOST $HOROVOD_HOSTNAME {fields}; pwd"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = sorted(line.partition(":")[2] for line in done.stdout.splitlines())
    assert lines == sorted(
        [
            "203.0.113.1 203.0.113.1 0 3 0 2 0 2",
            "203.0.113.1 203.0.113.1 1 3 1 2 0 1",
            "203.0.113.2 203.0.113.2 2 3 0 1 1 2",
            *[os.getcwd()] * 3,
        ]
    )


def test_a_failure_on_one_host_ends_the_others(horovodrun: Launch, tmp_path: Path, marker: str) -> None:
    script = f"if [ $HOROVOD_RANK = 2 ]; then exit 5; fi; sleep {marker}"
    done = horovodrun(
        "--rsh-agent", agent_script(tmp_path), "-np", "3", "-H", HOSTS, "--network-interfaces", "lo", *sh(script)
    )
    assert done.returncode == 5
    assert not alive(marker)


def test_a_host_that_cannot_be_reached(horovodrun: Launch, tmp_path: Path) -> None:
    done = horovodrun("--rsh-agent", "false", "-np", "3", "-H", HOSTS, "--network-interfaces", "lo", *sh("echo never"))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "horovodrun: Could not reach host 203.0.113.1: the remote shell ended with status 1",
        "Could not reach host 203.0.113.2: the remote shell ended with status 1",
    ]
    assert "never" not in done.stdout


def test_what_a_remote_shell_says_is_told_once(horovodrun: Launch, tmp_path: Path) -> None:
    shell = tmp_path / "says"
    shell.write_text("#!/bin/sh\necho ssh: no route to $1 >&2\nexit 255\n")
    shell.chmod(0o755)
    done = horovodrun("--rsh-agent", str(shell), "-np", "1", "-H", "203.0.113.1:1", *sh("echo never"))
    (line,) = done.stderr.splitlines()
    assert line.endswith("host 203.0.113.1: the remote shell ended with status 255: ssh: no route to 203.0.113.1")


def test_no_secret_on_any_command_line(start_horovodrun: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = "import os; print(os.read(int(os.environ['HOROVOD_SECRET_FD']), 100).hex()); import time; time.sleep(1000)"
    process = start_horovodrun(
        "--rsh-agent",
        agent_script(tmp_path),
        "-np",
        "1",
        "-H",
        "203.0.113.1:1",
        "--network-interfaces",
        "lo",
        PYTHON,
        "-c",
        code,
    )
    secret = process.stdout.readline().partition(":")[2].strip()
    assert len(secret) == 64
    for other in psutil.process_iter():
        try:
            seen = " ".join(other.cmdline()) + " ".join(other.environ().values())
        except psutil.Error:
            continue
        assert secret not in seen
    process.terminate()
    process.wait(timeout=60)


NOWHERE = "255.255.255.255"  # no connection goes there


def test_a_host_takes_the_first_interface_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gloo_run.network, "outward_addresses", lambda: {"127.0.0.1": "x1", NOWHERE: "x0"})
    monkeypatch.setattr(gloo_run.network, "address_towards", lambda _: NOWHERE)
    monkeypatch.setattr(gloo_run.network, "free_port", lambda _: 4242)
    settings = Settings(num_proc=3, hosts=HOSTS, remote_shell=agent_script(tmp_path))
    code = "from horovod.common.basics import HorovodBasics as B; b = B(); b.init(); print(b.rank(), b.size())"
    tell = sh(f'echo $HOROVOD_GLOO_RENDEZVOUS_ADDR $MASTER_ADDR; exec {PYTHON} -c "{code}"')
    gloo_run.launch_gloo(tell, settings, {**os.environ, "HOROVOD_GLOO_IFACE": "lo"})
    told = capfd.readouterr()
    assert sorted(line.partition(":")[2] for line in told.out.splitlines()) == sorted(
        [f"{rank} 3" for rank in range(3)] + ["127.0.0.1 203.0.113.1"] * 3
    )
    assert not told.err

    monkeypatch.setattr(gloo_run.network, "outward_addresses", lambda: {"224.0.0.1": "x1"})
    told = rf"interfaces: from 203.0.113.\d nothing answers at the route there \({NOWHERE}\), x1 \(224.0.0.1\)\."
    with pytest.raises(RuntimeError, match=told):
        gloo_run.launch_gloo(sh("echo never"), settings, os.environ)
    assert "never" not in capfd.readouterr().out


def test_a_host_of_an_elastic_job_does_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gloo_run.network, "outward_addresses", lambda: {"127.0.0.1": "x1", NOWHERE: "x0"})
    monkeypatch.setattr(gloo_run.network, "address_towards", lambda _: NOWHERE)
    hosts = FixedHosts({"localhost": 1, "203.0.113.1": 1})
    settings = ElasticSettings(2, "", discovery=hosts, elastic_timeout=1.0, remote_shell=agent_script(tmp_path))
    code = """if True:
        import os
        from horovod.common.basics import HorovodBasics as B
        B().init()
        print(B().rank(), os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["MASTER_ADDR"])"""
    gloo_run.launch_gloo_elastic([PYTHON, "-c", code], settings, {**os.environ, "HOROVOD_GLOO_IFACE": "lo"})
    told = capfd.readouterr().out.splitlines()
    assert sorted(line.partition(":")[2] for line in told) == [f"{rank} 127.0.0.1 127.0.0.1" for rank in range(2)]

    monkeypatch.setattr(gloo_run.network, "outward_addresses", lambda: {"224.0.0.1": "x1"})
    with pytest.raises(TimeoutException, match="there are 1, and the job needs at least 2"):
        gloo_run.launch_gloo_elastic(["sleep", "60"], settings, os.environ)
    told = rf"could not be started: .*from 203.0.113.1 nothing answers at the route there \({NOWHERE}\), x1 \(224"
    assert re.search(told, capfd.readouterr().err)


ALONE = """
import os, sys, time
from horovod.common import life_cycle as hvd
hvd.init()
print("trains", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.mark.parametrize("signals", [[], [signal.SIGTERM]], ids=["ends", "is ended"])
def test_an_elastic_job_does_not_wait_for_a_host_that_is_still_being_reached(
    start_horovodrun: Callable[..., subprocess.Popen[str]], tmp_path: Path, marker: str, signals: list[int]
) -> None:
    (tmp_path / "hosts").write_text("localhost:1\n")
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexec sleep {marker}\n")
    agent.chmod(0o755)
    job = start_horovodrun(
        "-np", "1", "--min-np", "1", "--max-np", "2", "--host-discovery-script", f"cat {tmp_path}/hosts",
        "--rsh-agent", str(agent), "--start-timeout", "10000", PYTHON, "-c", ALONE, str(tmp_path / "release"),
    )  # fmt: skip
    assert "trains" in job.stdout.readline()
    (tmp_path / "more").write_text("localhost:1\n203.0.113.9:1\n")
    (tmp_path / "more").rename(tmp_path / "hosts")
    while not (tmp_path / "called").exists():
        assert job.poll() is None
    for number in signals:
        job.send_signal(number)
    if not signals:
        (tmp_path / "release").touch()
    assert job.wait(60) == sum(128 + number for number in signals)
    assert not alive(marker)
