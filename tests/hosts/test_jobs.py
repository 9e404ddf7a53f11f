"""Jobs that must work: every launcher, over every transport that reaches other hosts."""

from __future__ import annotations

import pytest
from conftest import Launch
from horovod import _roda
from network import Network

WAYS = [
    ("horovodrun", "tcp"),
    ("horovodrun", "gloo"),
    ("horovodrun", "ucx"),
    ("mpirun", "tcp"),
    ("mpirun", "mpi"),
]


def variables(transport: str) -> dict[str, str]:
    return {"HOROVOD_CPU_OPERATIONS": transport, "UCX_TLS": "tcp,self"}


def skip_unless_usable(transport: str) -> None:
    if not _roda.transport_usable(transport):
        pytest.skip(f"{transport} is not usable here; roda-info --plugins says why")


@pytest.mark.parametrize(("launcher", "transport"), WAYS)
def test_collectives(launch: Launch, two_hosts: Network, launcher: str, transport: str) -> None:
    skip_unless_usable(transport)
    done = launch(launcher, two_hosts, (2, 2), "collectives.py", **variables(transport))
    assert done.status == 0, str(done)
    assert done.told == [f"fine {rank}" for rank in range(4)]


def numbers(rank: int, size: int, local: tuple[int, int], cross: tuple[int, int], host: str, uniform: bool) -> str:
    return f"rank {rank} of {size}, local {local[0]} of {local[1]}, cross {cross[0]} of {cross[1]}, {host}, {uniform}"


# By slots: local rank and size, cross rank and size, and host of every rank.
PLACES = {
    (2, 2): [((0, 2), (0, 2), 0), ((1, 2), (0, 2), 0), ((0, 2), (1, 2), 1), ((1, 2), (1, 2), 1)],
    (2, 1): [((0, 2), (0, 2), 0), ((1, 2), (0, 1), 0), ((0, 1), (1, 2), 1)],
    (2, 2, 2): [((i % 2, 2), (i // 2, 3), i // 2) for i in range(6)],
}


def expected(network: Network, slots: tuple[int, ...]) -> list[str]:
    places, uniform = PLACES[slots], len(set(slots)) == 1
    return [
        numbers(rank, len(places), local, cross, network.hosts[host].name, uniform)
        for rank, (local, cross, host) in enumerate(places)
    ]


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun"])
@pytest.mark.parametrize("slots", PLACES, ids=str)
def test_numbers(
    launch: Launch, two_hosts: Network, three_hosts: Network, launcher: str, slots: tuple[int, ...]
) -> None:
    network = two_hosts if len(slots) == 2 else three_hosts
    done = launch(launcher, network, slots, "placement.py")
    assert done.status == 0, str(done)
    assert done.told == expected(network, slots), str(done)


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun"])
def test_hosts_of_one_name(launch: Launch, twins: Network, launcher: str) -> None:
    done = launch(launcher, twins, (2, 2), "placement.py")
    assert done.status == 0, str(done)
    assert done.told == expected(twins, (2, 2)), str(done)


def test_training_on_three_hosts(launch: Launch, three_hosts: Network) -> None:
    done = launch("horovodrun", three_hosts, (2, 2, 2), "train.py")
    assert done.status == 0, str(done)
    assert done.told == [f"fine {rank}" for rank in range(6)], str(done)


def test_the_link_decides_on_formats(launch: Launch, three_hosts: Network) -> None:
    settings = {"HOROVOD_SELECT": "allreduce@between = tcp/ordered/auto", "HOROVOD_LOG_LEVEL": "info"}
    done = launch("horovodrun", three_hosts, (1, 1, 1), "sums.py", **settings)
    assert done.status == 0, str(done)
    assert "allreduce by tcp/ordered/bf16" in str(done), str(done)  # 2 Gbit/s


def test_horovodrun_through_mpirun(launch: Launch, two_hosts: Network) -> None:
    done = launch("horovodrun", two_hosts, (1, 1), "train.py", "--mpi", HOROVOD_CPU_OPERATIONS="mpi")
    assert done.status == 0, str(done)
    assert done.told == ["fine 0", "fine 1"], str(done)
