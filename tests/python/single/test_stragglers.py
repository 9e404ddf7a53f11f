"""A rank that keeps the others waiting says so, and all ranks are told; an elastic job may replace its host."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TRAINS = f"""
import json, queue, sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "binding")!r})
import arrays as hvd
import numpy as np
from horovod.common.life_cycle import on_straggler
heard = queue.Queue()
on_straggler(lambda late: 1 / 0)
on_straggler(heard.put)
hvd.init()
for step in range(120):  # in turn
    time.sleep(0.03 if step % hvd.size() == hvd.rank() else 0.01)
    hvd.allreduce(np.ones(1000), name="grad")
assert heard.empty()
late = hvd.rank() == int(sys.argv[1])
for step in range(120):
    time.sleep(0.03 if late else 0.01)
    handles = [hvd.allreduce_async(np.ones(1000), name=f"grad.{{part}}") for part in range(3)]
    for handle in handles:
        hvd.synchronize(handle)
print(json.dumps(vars(heard.get(timeout=60))), flush=True)
assert heard.empty()
hvd.shutdown()
"""


@pytest.mark.parametrize("late", [0, 2])
def test_a_planted_straggler_is_named_once(horovodrun: Callable[..., object], late: int) -> None:
    done = horovodrun("-np", "3", sys.executable, "-c", TRAINS, str(late))
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"Rank (\d+) on host (\S+) comes last in (\d+) of (\d+) steps, by (\S+) ms: (.*)", done.stderr)
    assert [line[0] for line in lines] == [str(late)], done.stderr
    assert ", before a step's first tensor; its main thread sleeps, " in lines[0][5]
    told = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]
    assert len(told) == 3
    assert all(each == told[0] for each in told)
    assert (told[0]["rank"], told[0]["host"]) == (late, lines[0][1])
    assert (told[0]["of_steps"], told[0]["steps"]) == (int(lines[0][3]), int(lines[0][2]))
    assert told[0]["steps"] >= 0.8 * told[0]["of_steps"]
    assert told[0]["share"] >= 0.1
    assert lines[0][5].endswith(f"; {told[0]['cause']}.")
    assert told[0]["before_first"] > 0.7 * told[0]["seconds"] > 0
    assert done.stderr.count("A function given to hvd.on_straggler failed.") == 3


STEPS_UNTIL_REPLACED = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "binding")!r})
import arrays as hvd
import numpy as np
from horovod.common import life_cycle
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.objects import allgather_object, broadcast_object
SLOW = "127.0.0.1"
here = os.environ["HOROVOD_HOSTNAME"]
def train(state):
    hosts = allgather_object(here)
    while SLOW in hosts:
        time.sleep(0.04 if here == SLOW else 0.01)
        hvd.allreduce(np.ones(1000), name="grad")
        state.step += 1
        if state.step % 10 == 0:
            state.commit()
    return hosts
def reset():
    life_cycle.shutdown()
    life_cycle.init()
life_cycle.init()
print(run_fn(train, reset)(ObjectState(broadcast_object, life_cycle.rank, step=0)), flush=True)
"""


def test_a_slow_host_leaves_for_one_that_waits(horovodrun: Callable[..., object]) -> None:
    elastic = ("-np", "2", "--min-np", "1", "--max-np", "2", "-H", "localhost:1,127.0.0.1:1,127.0.0.2:1")
    done = horovodrun(*elastic, "--replace-slow-hosts", "0", sys.executable, "-c", STEPS_UNTIL_REPLACED)
    assert done.returncode == 0, done.stderr
    assert "Host 127.0.0.1 has kept the others waiting for 0 s. Other hosts' slots take its place." in done.stderr
    assert done.stdout.count("['localhost', '127.0.0.2']") == 2, done.stdout
