"""Elastic jobs over hosts: one is lost; random events of one seed (tests/elastic/events.py runs more, and others)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LIMIT, Launch
from network import Network

ELASTIC = Path(__file__).parents[1] / "elastic"
sys.path.insert(0, str(ELASTIC))

from events import PATIENCE, is_on  # noqa: E402
from job import ElasticJob  # noqa: E402


@pytest.mark.usefixtures("two_hosts")  # skips where none can be made
def test_a_job_goes_on_whatever_happens() -> None:
    """The first of this seed is a cable that is pulled, the second an agent that is killed."""
    command = [sys.executable, str(ELASTIC / "events.py"), "--hosts", "3", "--events", "8", "--seed", "422"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_sharded_optimizer_goes_on_from_neighbours_when_a_host_is_lost(launch: Launch, two_hosts: Network) -> None:
    flags = ("--min-np", "2")
    figures = set()
    for lost in (None, 0):  # rank 0 with it
        variables = {} if lost is None else {"LOST_HOST": str(lost)}
        done = launch("horovodrun", two_hosts, (2, 2), "sharded.py", *flags, **variables)
        assert done.status == 0, str(done)
        begun = [line for line in done.told if line.startswith("begins")]
        again = [] if lost is None else ["begins with step 6, 2 ranks"] * 2
        assert begun == ["begins with step 0, 4 ranks"] * 4 + again, str(done)
        told = [line for line in done.told if line.startswith("figures")]
        assert len(told) == (4 if lost is None else 2), str(done)
        figures |= set(told)
    assert len(figures) == 1, figures


@pytest.mark.usefixtures("two_hosts")  # skips where none can be made
def test_a_host_that_goes_does_not_take_the_state_with_it_while_the_other_is_cut_off() -> None:
    with Network(3) as network:
        goes, cut_off, comes = network.hosts
        flags = ("-np", "2", "--min-np", "1")
        with ElasticJob({goes.address: 1, cut_off.address: 1}, *flags, network=network, **PATIENCE) as job:
            trains = job.wait_until_trained(2, 0.0, LIMIT, set())
            step = max(line["step"] for line in trains.values())
            network.set_link(cut_off, False)
            job.set_hosts({cut_off.address: 1, comes.address: 1})
            since = max(line["time"] for line in trains.values())
            now = job.wait_until_trained(None, since, LIMIT, {pid for pid in trains if is_on(cut_off, pid)})
            assert min(line["step"] for line in now.values()) >= step, job.text()
