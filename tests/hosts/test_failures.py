"""What goes wrong between hosts, and what everybody is told then."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import JOBS, LIMIT, Launch, Runner, horovodrun, mpirun
from horovod import _roda
from network import WIRE, Network

SHORT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "8", "HOROVOD_ABORT_TIMEOUT_SECONDS": "4"}


def lines(folder: Path) -> list[str]:
    return sorted(line for path in folder.iterdir() for line in path.read_text(encoding="utf-8").splitlines())


def wait_for(folder: Path, start: str, count: int, process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that begin so once that many ranks told one."""
    limit = time.monotonic() + LIMIT
    while len(found := [line for line in lines(folder) if line.startswith(start)]) < count:
        if process.poll() is not None or time.monotonic() > limit:
            out, err = process.communicate()
            pytest.fail(f"only {lines(folder)} were told; {out}{err}")
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("transport", ["tcp", "gloo"])
def test_a_cable_that_is_pulled_in_mid_collective(runner: Runner, fragile_hosts: Network, transport: str) -> None:
    command = horovodrun(fragile_hosts, (2, 2), "stream.py")
    process = runner.start(fragile_hosts, (2, 2), command, HOROVOD_CPU_OPERATIONS=transport, **SHORT)
    wait_for(runner.told(process), "under way", 4, process)
    fragile_hosts.set_link(fragile_hosts.hosts[1], False)
    for line in wait_for(runner.told(process), "error", 4, process):
        rank = int(line.split()[1].rstrip(":"))
        others = (2, 3) if rank < 2 else (0, 1)
        assert any(f"rank {other}" in line.lower() for other in others), line


@pytest.mark.parametrize("transport", ["tcp", "gloo"])
def test_a_rank_that_is_killed_on_the_other_host(runner: Runner, two_hosts: Network, transport: str) -> None:
    command = [*horovodrun(two_hosts, (2, 2), "stream.py", "--termination-grace-seconds", "60"), "3"]
    done = runner.end(runner.start(two_hosts, (2, 2), command, HOROVOD_CPU_OPERATIONS=transport, **SHORT))
    assert done.status == 137, str(done)
    errors = [line for line in done.told if line.startswith("error")]
    assert [line[:7] for line in errors] == ["error 0", "error 1", "error 2"], str(done)
    for line in errors:
        assert "rank 3" in line.lower(), line


def test_a_cable_that_is_pulled_before_the_start(launch: Launch, fragile_hosts: Network) -> None:
    fragile_hosts.set_link(fragile_hosts.hosts[1], False)
    done = launch("horovodrun", fragile_hosts, (1, 1), "placement.py", **SHORT)
    assert done.status != 0
    address = fragile_hosts.hosts[0].address
    there = fragile_hosts.hosts[1].address
    told = rf"from {there} nothing answers at [\w ]+ \({address}\)\. Name an interface"
    assert re.search(told, done.stderr), str(done)


def test_no_network_on_the_launchers_host(launch: Launch, fragile_hosts: Network) -> None:
    fragile_hosts.set_link(fragile_hosts.hosts[0], False)
    done = launch("horovodrun", fragile_hosts, (1, 1), "placement.py", **SHORT)
    assert done.status == 1
    assert f"There is no route to host {fragile_hosts.hosts[1].address}" in done.stderr, str(done)


def test_a_host_whose_name_does_not_resolve(runner: Runner, two_hosts: Network) -> None:
    hosts = f"{two_hosts.hosts[0].address}:1,nowhere.invalid:1"
    command = ["horovodrun", "-np", "2", "-H", hosts, "true"]
    done = runner.end(runner.start(two_hosts, (1, 1), command))
    assert done.status == 1
    assert "Could not reach host nowhere.invalid: the remote shell ended with status 255" in done.stderr, str(done)
    assert "name does not resolve" in done.stderr


def test_a_remote_shell_that_fails(runner: Runner, two_hosts: Network, tmp_path: Path) -> None:
    agent = tmp_path / "broken"
    agent.write_text("#!/bin/sh\necho no entry to $1 >&2\nexit 41\n")
    agent.chmod(0o700)
    command = horovodrun(two_hosts, (1, 1), "placement.py", "--rsh-agent", str(agent))
    done = runner.end(runner.start(two_hosts, (1, 1), command))
    assert done.status == 1
    address = two_hosts.hosts[1].address
    assert f"Could not reach host {address}: the remote shell ended with status 41" in done.stderr, str(done)
    assert f"no entry to {address}" in done.stderr
    assert done.told == []


def test_names_that_only_the_remote_shell_knows(runner: Runner, two_hosts: Network, tmp_path: Path) -> None:
    agent = tmp_path / "by-name"
    agent.write_text(f'#!/bin/sh\nshift\nexec {two_hosts.agent} {two_hosts.hosts[1].address} "$*"\n')
    agent.chmod(0o700)
    command = ["horovodrun", "-np", "2", "-H", f"{two_hosts.hosts[0].address}:1,birch:1", "--rsh-agent", str(agent)]
    done = runner.end(runner.start(two_hosts, (1, 1), [*command, sys.executable, str(JOBS / "placement.py")]))
    assert done.status == 0, str(done)
    assert done.told[1] == "rank 1 of 2, local 0 of 1, cross 1 of 2, birch, True"


@pytest.mark.parametrize("transport", ["tcp", "gloo"])
def test_an_interface_that_is_not_there(launch: Launch, two_hosts: Network, transport: str) -> None:
    variables = {"HOROVOD_GLOO_IFACE": "wrong0", "HOROVOD_CPU_OPERATIONS": transport}
    done = launch("horovodrun", two_hosts, (1, 1), "placement.py", **variables)
    assert done.status == 1
    for rank in (0, 1):
        said = "".join(line for line in done.stderr.splitlines() if line.startswith(f"[{rank}]"))
        assert "'wrong0'" in said, str(done)
        assert WIRE in said, str(done)


def wrapped(network: Network, slots: tuple[int, ...], job: str, script: str) -> list[str]:
    """Run a shell script before the job on each rank, in the same process."""
    command = horovodrun(network, slots, job)
    at = command.index(sys.executable)
    return [*command[:at], "sh", "-c", f"{script}\nexec {shlex.join(command[at:])}"]


def test_a_rank_that_is_started_twice(runner: Runner, two_hosts: Network) -> None:
    script = 'if [ "$HOROVOD_RANK" = 3 ]; then HOROVOD_RANK=1 HOROVOD_LOCAL_RANK=1 HOROVOD_CROSS_RANK=0; fi'
    done = runner.end(runner.start(two_hosts, (2, 2), wrapped(two_hosts, (2, 2), "placement.py", script)))
    assert done.status == 1
    assert re.search(r"rank 1 was started twice: process \d+ on host 10[.\d]+ has this", done.stderr), str(done)
    assert done.told == []


def test_different_plugins_on_two_hosts(runner: Runner, two_hosts: Network, tmp_path: Path) -> None:
    plugins = Path(_roda.__file__).parent / "lib/roda/plugins"
    fewer = tmp_path / "plugins"
    shutil.copytree(plugins, fewer)
    (fewer / "roda_gloo.so").unlink()
    mount = f"mount --bind {fewer} {plugins}"
    script = f'if [ "$HOROVOD_CROSS_RANK" = 1 ]; then [ -e {plugins}/roda_gloo.so ] && {mount}; fi'
    done = runner.end(runner.start(two_hosts, (3, 1), wrapped(two_hosts, (3, 1), "placement.py", script)))
    assert done.status == 1
    assert re.search(r"the ranks do not agree: rank 3: transports=.* \(others: .*gloo.*\)", done.stderr), str(done)
    assert done.told == []


# Over tcp: Gloo takes whoever connects first for the peer (docs/security.md).
def test_strangers_at_every_port(runner: Runner, three_hosts: Network) -> None:
    hosts = three_hosts.hosts
    command = horovodrun(three_hosts, (1, 1), "again.py")
    process = runner.start(three_hosts, (1, 1), command)
    targets = [f"{host.address}={host.namespace}" for host in hosts[:2]]
    stranger = subprocess.Popen(
        three_hosts.command(
            hosts[2], [sys.executable, str(JOBS / "stranger.py"), str(runner.told(process)), *targets]
        ),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        done = runner.end(process)
        (runner.told(process) / "over").touch()
        knocked, _ = stranger.communicate(timeout=LIMIT)
    finally:
        stranger.kill()
        stranger.communicate()
    assert done.status == 0, str(done)
    assert done.told == ["fine", "fine"]
    assert int(knocked.split()[0]) > 0, knocked


def test_a_cable_that_is_pulled_under_mpi(runner: Runner, fragile_hosts: Network) -> None:
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("there is no mpirun of Open MPI")
    variables = {"HOROVOD_CPU_OPERATIONS": "mpi", **SHORT}
    command = mpirun(fragile_hosts, (1, 1), "stream.py", *variables)
    process = runner.start(fragile_hosts, (1, 1), command, **variables)
    wait_for(runner.told(process), "under way", 2, process)
    fragile_hosts.set_link(fragile_hosts.hosts[1], False)
    wait_for(runner.told(process), "error", 2, process)


def pids_of(told: list[str]) -> dict[str, str]:
    """Return the processes by rank: not in its order."""
    return {line.split()[-1]: line.split()[1] for line in told}


def test_the_doctor_asks_other_hosts(runner: Runner, two_hosts: Network) -> None:
    process = runner.start(two_hosts, (1, 1), horovodrun(two_hosts, (1, 1), "hangs.py"))
    waits = pids_of(wait_for(runner.told(process), "process", 2, process))["0"]
    here, there = two_hosts.hosts

    def ask(*arguments: str) -> str:
        doctor = [sys.executable, "-m", "horovod.observe.doctor", waits, "--rsh-agent", str(two_hosts.agent)]
        command = two_hosts.command(here, [*doctor, *arguments])
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def says(text: str, *arguments: str) -> str:
        limit = time.monotonic() + LIMIT
        while text not in (said := ask(*arguments)) and time.monotonic() < limit:
            time.sleep(0.1)
        return said

    alone = "Nothing is known here of rank 1, on other hosts."
    assert alone in says("for rank 1 to submit 'allreduce.hangs'", "--here")
    assert "Rank 1 (process" in says("diverged first", "-H", f"{there.address}:1")
    said = says("diverged first")
    late = r"Rank 1 \(process \d+ on \S+, at \S+/hangs\.py:\d+\) diverged first: the last that it submitted was 'allred"
    assert re.match(late, said)
    assert "Rank 0 has waited for" in said
    assert alone not in said
    assert "nothing is known of nowhere.invalid" in ask("-H", "nowhere.invalid")


def test_the_view_has_the_ranks_of_all_hosts(runner: Runner, two_hosts: Network) -> None:
    """Until a host tells no more, which is named then."""
    process = runner.start(two_hosts, (1, 1), horovodrun(two_hosts, (1, 1), "hangs.py"))
    pids = pids_of(wait_for(runner.told(process), "process", 2, process))
    here, there = two_hosts.hosts
    view = [sys.executable, "-m", "horovod.observe.top", pids["0"], "--rsh-agent", str(two_hosts.agent)]

    def look(*arguments: str) -> subprocess.Popen[str]:
        command = two_hosts.command(here, [*view, "--interval", "0.2", *arguments])
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    with look("--once") as once:
        said, _ = once.communicate(timeout=LIMIT)
    ranks = [line.split() for line in said.splitlines()[1:3]]
    assert [each[:3] for each in ranks] == [["0", here.address, pids["0"]], ["1", there.address, pids["1"]]], said
    assert "on other hosts" not in said
    with look("--once", "-H", "nowhere.invalid") as once:
        said, _ = once.communicate(timeout=LIMIT)
    assert "Nothing is known of nowhere.invalid: agent: unknown host nowhere.invalid" in said
    with look() as goes_on:
        try:
            assert any(line.split()[:2] == ["1", there.address] for line in goes_on.stdout)
            for child in psutil.Process(goes_on.pid).children(recursive=True):
                if "--marked" in " ".join(child.cmdline()):
                    child.kill()
            assert any(line.startswith(f"Nothing is known of {there.address}: ") for line in goes_on.stdout)
            assert any(line.split()[:2] == ["0", here.address] for line in goes_on.stdout)
        finally:
            goes_on.kill()
