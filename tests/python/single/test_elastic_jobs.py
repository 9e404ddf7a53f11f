"""Elastic jobs: workers that die, slots that come and go, discovery that goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import horovod
import pytest
from conftest import Launch

# Every step, all ranks' samples are added to the state; FOLDER gets a line a generation and what the end came to.
TRAINING = """
import json, os, signal, sys, time
import torch
import horovod.torch as hvd
from horovod.torch.elastic import ElasticSampler, TorchState

folder, samples, plan = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
hvd.init()
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
sampler = ElasticSampler(list(range(samples)), seed=3)
state = TorchState(model=model, optimizer=optimizer, sampler=sampler, seen=[], sizes=[])
state.register_reset_callbacks([lambda: hvd.allgather_object("reset")])  # of all, with those that have just come


def tell(kind, **what):
    with open(os.path.join(folder, kind), "a") as file:
        file.write(json.dumps(what) + "\\n")


tell("numbers", rank=hvd.rank(), size=hvd.size(), local=hvd.local_rank())


def polls():
    return os.path.getsize(os.path.join(folder, "polls"))


def mark(at):
    return os.path.join(folder, f"done.{at}")


def die_as_planned():
    for at, action, value in plan:
        if action == "kill" and hvd.rank() == value and len(state.seen) >= at and not os.path.exists(mark(at)):
            open(mark(at), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


def is_waiting():
    # On rank 0: until the workers are as many as the plan says, or discovery has seen the hosts that it gives. No time
    # is assumed.
    for at, action, value in plan:
        if len(state.seen) < at or action == "kill":
            continue
        if action == "hosts" and not os.path.exists(mark(at)):
            with open(os.path.join(folder, "hosts.new"), "w") as file:
                file.write(value)
            os.rename(os.path.join(folder, "hosts.new"), os.path.join(folder, "hosts"))
            with open(mark(at), "w") as file:
                file.write(str(polls()))
        if action == "hosts" and polls() < int(open(mark(at)).read()) + 3:
            return True
        if action == "size" and not os.path.exists(mark(at)):
            if hvd.size() != value:
                return True
            open(mark(at), "w").close()
    return False


@hvd.elastic.run
def train(state):
    tell("generations", pid=os.getpid(), rank=hvd.rank(), size=hvd.size(), local=hvd.local_rank(), seen=len(state.seen))
    for i, sample in enumerate(sampler):
        optimizer.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        seen = hvd.allgather_object(sample)
        die_as_planned()
        state.seen = state.seen + seen
        if not state.sizes or state.sizes[-1] != hvd.size():
            state.sizes = [*state.sizes, hvd.size()]
        sampler.record_batch(i, 1)
        state.commit()
        while hvd.broadcast_object(hvd.rank() == 0 and is_waiting()):
            time.sleep(0.05)
            state.check_host_updates()
    return len(state.seen)


train(state)
weights = hvd.allgather_object(model.weight.tolist())
if hvd.rank() == 0:
    tell("end", seen=state.seen, sizes=state.sizes, agree=all(w == weights[0] for w in weights))
"""

Run = Callable[..., "tuple[subprocess.CompletedProcess[str], Path]"]


@pytest.fixture
def train(horovodrun: Launch, tmp_path: Path) -> Run:
    def run(hosts: str, samples: int, plan: list, *flags: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        (tmp_path / "train.py").write_text(TRAINING)
        (tmp_path / "hosts").write_text(hosts)
        script = tmp_path / "discover"
        script.write_text(f"#!/bin/sh\nprintf . >>{tmp_path}/polls\ncat {tmp_path}/hosts\n")
        script.chmod(0o700)
        job = [sys.executable, str(tmp_path / "train.py"), str(tmp_path), str(samples), json.dumps(plan)]
        return horovodrun("--host-discovery-script", str(script), *flags, *job), tmp_path

    return run


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_samples(end: dict, samples: int, replicas: int) -> None:
    """None is lost; repeated are only those that fill up the epoch's last batch."""
    assert set(end["seen"]) == set(range(samples))
    assert samples <= len(end["seen"]) < samples + replicas


def test_a_worker_dies_another_takes_its_place_and_the_slot_goes(train: Run) -> None:
    plan = [
        [20, "kill", 1],
        [30, "size", 2],
        [40, "hosts", "no hosts today!"],
        [50, "hosts", "localhost:1"],
        [60, "size", 1],
    ]
    flags = ("-np", "2", "--min-np", "1", "--max-np", "2", "--blacklist-cooldown-range", "1", "2")
    done, folder = train("localhost:2", 90, plan, *flags)
    assert done.returncode == 0, done.stderr
    (end,) = lines(folder / "end")
    check_samples(end, 90, 2)
    assert end["agree"]
    assert end["sizes"] == [2, 1, 2, 1]
    generations = lines(folder / "generations")
    (first,) = {line["pid"] for line in generations if line["rank"] == 0}  # the survivor has never started anew
    assert len({line["pid"] for line in generations}) == 3
    assert "Worker localhost[1], rank 1 was ended by SIGKILL." in done.stderr
    assert "printed 'no hosts today!', which is neither `host` nor `host:slots`" in done.stderr
    assert "localhost[1] has been removed from elastic job" in done.stderr


def test_slots_are_added(train: Run) -> None:
    plan = [[10, "hosts", "localhost:4"], [20, "size", 4]]
    done, folder = train("localhost:2", 60, plan, "-np", "2", "--min-np", "2")
    assert done.returncode == 0, done.stderr
    (end,) = lines(folder / "end")
    check_samples(end, 60, 4)
    assert (end["sizes"][0], end["sizes"][-1]) == (2, 4)  # with 3 between them where a newcomer is late
    generations = lines(folder / "generations")
    assert {line["pid"] for line in generations[:2]} <= {line["pid"] for line in generations[-4:]}
    assert sorted(line["rank"] for line in generations[-4:]) == [0, 1, 2, 3]
    numbers = sorted((line["rank"], line["size"], line["local"]) for line in lines(folder / "numbers"))
    assert numbers == [(0, 2, 0), (1, 2, 1), (2, 4, 2), (3, 4, 3)]  # while they set up


def test_too_few_workers_are_left(train: Run) -> None:
    done, _ = train("localhost:2", 60, [[10, "kill", 1]], "-np", "2", "--min-np", "2", "--elastic-timeout", "1")
    assert done.returncode == 1
    assert "Timed out waiting for slots to run on: there are 1, and the job needs at least 2" in done.stderr


RAISES = """
from horovod.common import life_cycle as hvd, objects
from horovod.common.elastic import ObjectState, run_fn


def reset():
    hvd.shutdown()
    hvd.init()


def train(state):
    while True:
        objects.allgather_object(0)
        if hvd.rank() == 1:
            raise ValueError("bad label 17")


hvd.init()
run_fn(train, reset)(ObjectState(objects.broadcast_object, hvd.rank, step=0))
"""


def test_a_rank_raises_and_no_other_slot_is_left(horovodrun: Launch, tmp_path: Path) -> None:
    """No wait would bring one where hosts are given; before, the job said nothing for ten minutes."""
    (tmp_path / "raises.py").write_text(RAISES)
    flags = ("-np", "2", "--min-np", "2", "-H", "localhost:2")
    done = horovodrun(*flags, sys.executable, "raises.py", cwd=tmp_path)
    assert done.returncode == 1
    words = "Worker localhost[1], rank 1 ended with status 1: ValueError: bad label 17 (raises.py:15).\n"
    assert words in done.stderr
    assert "Too few slots are left: there are 1, and the job needs at least 2 Horovod processes." in done.stderr
    assert "\nCause: ValueError: bad label 17 (raises.py:15)\n" in done.stderr


def test_a_command_that_fails_at_once(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", "--min-np", "1", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "Process name: localhost[" in done.stderr


def test_a_discovery_that_fails_at_the_start(horovodrun: Launch, tmp_path: Path) -> None:
    done = horovodrun("-np", "2", "--host-discovery-script", f"{tmp_path}/nowhere", "true")
    assert done.returncode == 1
    assert f"Failed to execute discovery script: {tmp_path}/nowhere ended with status 127" in done.stderr


# The membership loses count of its workers when the first one is a rank.
SPOILT = """
from horovod.runner.elastic.membership import Membership
from horovod.runner.launch import run_commandline

formed = Membership.formed


def spoil(self, number, generation, now):
    self.workers[number + 9] = self.workers[number]
    formed(self, number, generation, now)


Membership.formed = spoil
run_commandline()
"""


def test_a_fault_of_the_launchers_ends_the_job_with_a_sentence_and_the_flight_recorders(tmp_path: Path) -> None:
    discovery = tmp_path / "discover"
    discovery.write_text("#!/bin/sh\necho localhost:1\n")
    discovery.chmod(0o755)
    worker = "import signal, horovod.torch as hvd\nhvd.init()\nhvd.barrier()\nsignal.pause()"
    job = ["-np", "1", "--min-np", "1", "--host-discovery-script", str(discovery), sys.executable, "-c", worker]
    done = subprocess.run(
        [sys.executable, "-c", SPOILT, *job],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "RODA_FLIGHT_FOLDER": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "it does not hold that each worker is known by the number that it was given (horovod/runner" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("roda-flight.*.json"))


def test_functions_return_what_min_np_ranks_did() -> None:
    def train() -> tuple[int, int]:
        import horovod.torch as hvd

        hvd.init()
        return hvd.rank(), hvd.size()

    assert horovod.run(train, num_proc=2, min_num_proc=1) == [(0, 2)]
