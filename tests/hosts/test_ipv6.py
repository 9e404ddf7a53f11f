"""Hosts that have IPv6 addresses, and no other, not even on the loopback."""

from __future__ import annotations

import sys

import pytest
from conftest import JOBS, Launch, Runner
from network import Network
from test_addresses import start_by_variables
from test_jobs import skip_unless_usable, variables

FINE = [f"fine {rank}" for rank in range(4)]


@pytest.mark.parametrize("transport", ["tcp", "gloo", "ucx"])
def test_horovodrun(launch: Launch, ipv6_hosts: Network, transport: str) -> None:
    skip_unless_usable(transport)
    done = launch("horovodrun", ipv6_hosts, (2, 2), "sums.py", **variables(transport))
    assert done.status == 0, str(done)
    assert done.told == FINE, str(done)


@pytest.mark.parametrize("transport", ["shm", "tcp", "gloo"])
@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]], ids=["static", "elastic"])
def test_one_host(launch: Launch, ipv6_hosts: Network, transport: str, elastic: list[str]) -> None:
    done = launch("horovodrun", ipv6_hosts, (2,), "sums.py", *elastic, **variables(transport))
    assert done.status == 0, str(done)
    assert done.told == FINE[:2], str(done)


def test_an_elastic_job(launch: Launch, ipv6_hosts: Network) -> None:
    done = launch("horovodrun", ipv6_hosts, (2, 2), "sums.py", "--min-np", "4")
    assert done.status == 0, str(done)
    assert done.told == FINE, str(done)


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_plain_variables(runner: Runner, ipv6_hosts: Network, form: str) -> None:
    where = {"MASTER_ADDR": form.format(ipv6_hosts.hosts[0].address)}
    ends = start_by_variables(runner, ipv6_hosts, **variables("tcp"), **where)
    assert sorted(line for end in ends for line in end.told) == FINE, str(ends)


@pytest.mark.parametrize("master", ["::1", "[::1]", "localhost"])
def test_plain_variables_on_one_host(runner: Runner, ipv6_hosts: Network, master: str) -> None:
    script = "for RANK in 0 1; do export RANK; python3 -u $0 & done; wait"
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": master, "MASTER_PORT": "29500", **variables("tcp")}
    done = runner.end(runner.start(ipv6_hosts, (2,), ["bash", "-c", script, str(JOBS / "sums.py")], **given))
    assert done.told == FINE[:2], str(done)


def test_a_process_group_of_torch_on_one_host(runner: Runner, ipv6_hosts: Network) -> None:
    script = "for RANK in 0 1; do export RANK; python3 -u $0 & done; wait"
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "::1", "MASTER_PORT": "29500"}
    done = runner.end(runner.start(ipv6_hosts, (2,), ["bash", "-c", script, str(JOBS / "process_group.py")], **given))
    assert done.told == FINE[:2], str(done)


def test_a_process_group_of_torch(runner: Runner, ipv6_hosts: Network) -> None:
    ends = start_by_variables(runner, ipv6_hosts, "process_group.py")
    assert sorted(line for end in ends for line in end.told) == FINE, str(ends)


def test_torchs_store_by_the_engine(launch: Launch, ipv6_hosts: Network) -> None:
    done = launch("horovodrun", ipv6_hosts, (2, 2), "process_group.py")
    assert done.told == FINE, str(done)


def test_services_of_horovods_launchers(runner: Runner, ipv6_hosts: Network) -> None:
    done = runner.end(runner.start(ipv6_hosts, (1,), [sys.executable, str(JOBS / "services.py")]))
    assert done.told == ["fine at ::1"], str(done)
