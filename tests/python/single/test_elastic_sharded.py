"""A sharded optimizer in an elastic job: what a worker that died had of its state comes from its neighbour's memory."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
import torch
from conftest import Launch
from horovod.torch.elastic.sharded import _common, _Entry, _givers, _length, _takers

# FOLDER gets the whole state of each commit, and for each entry whether the state is that of the commit to the bit.
# EVENTS is what happens before a commit.
TRAINING = """
import json, os, signal, sys, time
import torch
import horovod.torch as hvd
from horovod.runner.elastic.worker import notification_manager
from horovod.torch.elastic import TorchState

folder = sys.argv[1]
hvd.init()
model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), sharded=True)
state = TorchState(model=model, optimizer=optimizer, step=0)


def path(name):
    return os.path.join(folder, str(name))


def whole():
    return {"model": model.state_dict(), "optimizer": optimizer.full_state_dict(), "step": state.step}


def flat(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return {str(k): flat(v) for k, v in value.items()} if isinstance(value, dict) else str(value)


def die(step, ranks):
    if state.step == step and hvd.rank() in ranks and not os.path.exists(path(f"died{step}.{hvd.rank()}")):
        open(path(f"died{step}.{hvd.rank()}"), "w").close()
        os.kill(os.getpid(), signal.SIGKILL)


def remove(step, hosts, polls):
    # Until the job knows, or discovery has seen it so often.
    if state.step == step and hvd.rank() == 0:
        with open(path("hosts.new"), "w") as file:
            file.write(hosts)
        os.rename(path("hosts.new"), path("hosts"))
        seen = os.path.getsize(path("polls"))
        while not notification_manager.leaving() or os.path.getsize(path("polls")) < seen + polls:
            time.sleep(0.05)


@hvd.elastic.run
def train(state):
    now = whole()
    if os.path.exists(path(state.step)):
        same = flat(torch.load(path(state.step))) == flat(now)
        with open(path("entries"), "a") as file:
            file.write(json.dumps({"pid": os.getpid(), "size": hvd.size(), "step": state.step, "same": same}) + "\\n")
    while state.step < 10:
        optimizer.zero_grad()
        torch.manual_seed(state.step)
        model(torch.randn(3, 7)).square().sum().backward()
        optimizer.step()
        state.step += 1
        EVENTS
        if state.step % 2 == 0:
            now = whole()
            if hvd.rank() == 0:
                torch.save(now, path(state.step))
            state.commit()
        while state.step == 6 and hvd.size() < 3 and os.path.exists(path("died5.1")):
            time.sleep(0.05)
            state.check_host_updates()


train(state)
"""


def test_workers_that_die_one_by_one_and_as_neighbours(horovodrun: Launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.replace("EVENTS", "die(5, (1,)); die(9, (1, 2))"))
    flags = ("-np", "3", "--min-np", "1", "--max-np", "3", "--blacklist-cooldown-range", "1", "2")
    done = horovodrun(*flags, sys.executable, str(tmp_path / "train.py"), str(tmp_path))
    entries = [json.loads(line) for line in (tmp_path / "entries").read_text().splitlines()]
    assert all(entry["same"] for entry in entries), entries
    assert [(entry["step"], entry["size"]) for entry in entries] == [(4, 2)] * 2 + [(6, 3)] * 3
    assert done.returncode == 1, done.stderr
    assert "RuntimeError: The commit of rank 1 of 3 is lost: " in done.stderr


@pytest.mark.parametrize("next_one", ['remove(4, "localhost:1", 3)', "die(4, (0,))"], ids=["removed", "dead"])
def test_a_worker_is_removed_and_before_a_commit_another(horovodrun: Launch, tmp_path: Path, next_one: str) -> None:
    events = rf'remove(3, "localhost:1\n127.0.0.1:1", 0); {next_one}'  # one of the two has the other's copy
    (tmp_path / "train.py").write_text(TRAINING.replace("EVENTS", events))
    (tmp_path / "hosts").write_text("localhost:2\n127.0.0.1:1")
    script = tmp_path / "discover"
    script.write_text(f"#!/bin/sh\nprintf . >>{tmp_path}/polls\ncat {tmp_path}/hosts\n")
    script.chmod(0o700)
    flags = ("-np", "3", "--min-np", "1", "--host-discovery-script", str(script))
    done = horovodrun(*flags, sys.executable, str(tmp_path / "train.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for line in (tmp_path / "entries").read_text().splitlines()]
    assert all(entry["same"] for entry in entries), entries
    assert entries[-1]["size"] == 1


def test_parts_of_one_number_of_ranks_become_those_of_another() -> None:
    draw = random.Random(5)  # noqa: S311 (test data)
    entries = [_Entry(i, "sum", torch.float32, width, draw.randrange(12)) for i, width in enumerate((8, 4, 4, 2, 1))]
    values = [bytes(draw.randrange(256) for _ in range(entry.width * entry.elements)) for entry in entries]

    def part(rank: int, count: int) -> bytes:
        return b"".join(value[slice(*entry.bytes_of((rank, count)))] for entry, value in zip(entries, values))

    for old in range(1, 6):
        for new in range(1, 6):
            for taker in range(new):
                row = bytearray(_length(entries, (taker, new)))
                for giver in range(old):
                    for begin, to, length in _common(entries, (giver, old), (taker, new)):
                        row[to : to + length] = part(giver, old)[begin : begin + length]
                assert row == part(taker, new), (old, new, taker)


def test_copies_are_kept_on_other_hosts_and_by_ranks_that_stay() -> None:
    assert _takers(4, 2, []) == [2, 3, 0, 1]
    assert _takers(3, 3, []) == [1, 2, 0]
    assert _takers(4, 1, [2, 3]) == [1, 0, 0, 1]
    assert _takers(6, 2, [4, 5]) == [2, 3, 0, 1, 0, 1]
    assert _takers(3, 1, [0, 1]) == [2, 2, 2]
    assert _takers(2, 1, [0, 1]) == [1, 0]


def test_each_part_is_given_once_by_its_owner_if_that_lives() -> None:
    assert _givers([[(0, 3), (2, 3)], [(1, 3), (0, 3)], [(2, 3), (1, 3)]], 3) == [[0], [1], [2]]
    assert _givers([[(0, 3), (2, 3)], [(2, 3), (1, 3)], []], 3) == [[0], [2, 1], []]
    assert _givers([[(0, 4), (3, 4)], [(1, 4), (0, 4)]], 4) == [[0, 3], [1]]
    assert _givers([[(0, 1)], [(0, 2)]], 1) == [[0], []]
