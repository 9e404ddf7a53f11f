"""Hosts whose first interface leads nowhere: ranks find each other without being told an interface."""

from __future__ import annotations

import sys

import pytest
from conftest import JOBS, Launch, Runner
from network import DEAD_END, WIRE, Network
from test_jobs import skip_unless_usable, variables
from test_launchers import PORT

DEAD, ADDRESS = DEAD_END[0], DEAD_END[1].split("/")[0]
FINE = [f"fine {rank}" for rank in range(4)]
MPI = {"OMPI_MCA_btl_tcp_if_include": WIRE}  # Open MPI's own connections would go astray


@pytest.mark.parametrize("transport", ["tcp", "gloo", "ucx"])
def test_horovodrun(launch: Launch, crossed_hosts: Network, transport: str) -> None:
    skip_unless_usable(transport)
    done = launch("horovodrun", crossed_hosts, (2, 2), "sums.py", **variables(transport))
    assert done.status == 0, str(done)
    assert done.told == FINE, str(done)


def test_an_elastic_job(launch: Launch, crossed_hosts: Network) -> None:
    done = launch("horovodrun", crossed_hosts, (2, 2), "sums.py", "--min-np", "4")
    assert done.status == 0, str(done)
    assert done.told == FINE, str(done)


def test_mpirun(launch: Launch, crossed_hosts: Network) -> None:
    done = launch("mpirun", crossed_hosts, (2, 2), "sums.py", **variables("tcp"), **MPI)
    assert done.status == 0, str(done)
    assert done.told == FINE, str(done)


def start_by_variables(runner: Runner, network: Network, job: str = "sums.py", **given: str) -> list:
    where = {"WORLD_SIZE": "4", "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": PORT, **given}
    started = []
    for host in (0, 1):
        loop = f"for i in 0 1; do RANK=$((2 * {host} + i)) {sys.executable} {JOBS / job} & done; wait"
        started.append(runner.start(network, (2, 2), ["sh", "-c", loop], on=host, **where))
    return [runner.end(process) for process in started]


@pytest.mark.parametrize("transport", ["tcp", "gloo"])
def test_plain_variables(runner: Runner, crossed_hosts: Network, transport: str) -> None:
    ends = start_by_variables(runner, crossed_hosts, **variables(transport))
    assert sorted(line for end in ends for line in end.told) == FINE, str(ends)


def test_an_interface_that_is_named_is_used_and_its_error_says_what_there_is(
    launch: Launch, crossed_hosts: Network
) -> None:
    first, second = crossed_hosts.hosts
    done = launch("horovodrun", crossed_hosts, (1, 1), "sums.py", HOROVOD_GLOO_IFACE=DEAD)
    assert done.status != 0
    assert done.told == []
    text = done.stderr + done.stdout
    assert "Rank 0, which leads its host, can't be connected to" in text, str(done)
    assert f"connection with {ADDRESS}:" in text, str(done)
    for host in (first, second):
        there = f"host {host.address} with the interfaces lo (127.0.0.1), {DEAD} ({ADDRESS}), {WIRE} ({host.address})"
        assert there in text, str(done)
    assert "--network-interfaces or HOROVOD_GLOO_IFACE" in text, str(done)


def test_so_is_one_that_is_named_for_tcp_alone(launch: Launch, crossed_hosts: Network) -> None:
    done = launch("horovodrun", crossed_hosts, (1, 1), "sums.py", **variables("tcp"), RODA_TCP_IFACE=DEAD)
    assert done.status != 0
    assert done.told == []
    text = done.stderr + done.stdout
    assert f"connection with {ADDRESS}:" in text, str(done)
    assert "RODA_TCP_IFACE names the interface" in text, str(done)
