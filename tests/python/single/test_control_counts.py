"""What forming a job and agreeing on a step take in messages is what ``roda-sim --control`` counts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import horovod
import pytest

PROGRAMS = Path(horovod.__file__).parent / "bin"


def rows_of(program: str, *arguments: object) -> list[dict[str, float]]:
    command = [str(PROGRAMS / program), "--control", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# One host; one rank on each of two levels of hosts; several on each.
@pytest.mark.parametrize(("ranks", "hosts"), [(4, 1), (11, 11), (64, 8)])
def test_a_job_takes_what_is_predicted(ranks: int, hosts: int, tmp_path: Path) -> None:
    told = {row["figure"]: row["value"] for row in rows_of("roda-perf", "-n", ranks, "--hosts", hosts)}
    predicted = {name: told[f"{name}, by roda-sim"] for name in told if f"{name}, by roda-sim" in told}
    assert len(predicted) == 7
    for name in predicted:
        if name in ("requests to the store", "bytes through the store"):
            assert told[name] == pytest.approx(predicted[name], rel=0.25), name
        elif name.startswith("messages of a step"):  # ranks that a busy machine holds up for 50 ms are not waited for
            assert predicted[name] <= told[name] <= 2 * predicted[name], name
        else:
            assert told[name] == predicted[name], name

    cluster = tmp_path / "hosts.json"
    levels = [{"name": "host", "members": ranks // hosts, "GBps": 1}, {"name": "network", "GBps": 1}]
    cluster.write_text(json.dumps({"name": "hosts", "levels": levels}))
    rows = rows_of("roda-sim", "-n", ranks, "-t", cluster)
    (ours,) = (row for row in rows if row.get("control") == "ours")
    (forming,) = (row for row in rows if "forming" in row)
    assert ours["busiest"] == predicted["messages of a step at the busiest rank"]
    assert forming["values"] == predicted["values in the store"]
