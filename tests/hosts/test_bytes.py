"""The bytes between hosts are those of the plan: counted on the interfaces, beside the model's arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import JOBS, Runner
from network import Network

SIZE = 24 << 20
COLLECTIVES = ("allreduce", "broadcast", "allgather", "reducescatter")
# Headers, acknowledgements and the control plane come on top of the data; so does what TCP sends again where a busy
# machine's acknowledgements come late, which the job counts.
MOST_ON_TOP = 0.08


def planned(collective: str, topology: Path) -> tuple[float, list[str]]:
    """Bytes between hosts of what runs, and its stages' places."""
    explain = [Path(sys.executable).parent / "roda-info", "--explain", collective, str(SIZE)]
    done = subprocess.run(  # noqa: S603
        [*explain, "--topology", topology, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    explained = json.loads(done.stdout)
    (chosen,) = (c for c in explained["candidates"] if c["chosen"])
    return chosen["predicted"]["bytes_between_hosts"], [stage["where"] for stage in explained["stages"]]


@pytest.mark.parametrize("slots", [(2, 2), (1, 2, 3)], ids=str)
def test_bytes_between_hosts(
    runner: Runner, two_hosts: Network, three_hosts: Network, tmp_path: Path, slots: tuple[int, ...]
) -> None:
    network = two_hosts if len(slots) == 2 else three_hosts
    topology = tmp_path / "job.json"
    command = [
        "horovodrun", "-np", str(sum(slots)), "-H", network.host_list(*slots),
        sys.executable, str(JOBS / "counted.py"), str(SIZE), *COLLECTIVES,
    ]  # fmt: skip
    settings = {"RODA_TOPOLOGY_DUMP_FILE": str(topology)}
    done = runner.end(runner.start(network, slots, command, **settings))
    assert done.status == 0, str(done)
    for collective in COLLECTIVES:
        counts = [line.split() for line in done.told if line.startswith(collective)]
        sent, repeated = (sum(int(count[column]) for count in counts) for column in (1, 2))
        expected, places = planned(collective, topology)
        assert "across hosts" in places, places
        text = f"{collective}: {sent} bytes, of which TCP repeated up to {repeated}, planned {expected}"
        assert len(counts) == len(slots), str(done)
        assert expected <= sent <= expected * (1 + MOST_ON_TOP) + repeated, f"{text}\n{done}"
