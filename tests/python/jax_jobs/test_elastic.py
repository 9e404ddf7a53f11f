"""An elastic job under JAX: a worker is killed while it trains, and the others go on in their processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKER = """
import os, signal, sys
import horovod.jax as hvd
import jax, jax.numpy as jnp, optax

hvd.init()
optimizer = hvd.distributed(optax.sgd(0.01))
weight = jnp.asarray([1.0])
state = hvd.elastic.JaxState(weight=weight, opt_state=optimizer.init(weight), step=0)

@jax.jit
def step(weight, opt_state):
    gradient = jax.grad(lambda weight: (weight * weight).sum())(weight)
    updates, opt_state = optimizer.update(gradient, opt_state, weight)
    return optax.apply_updates(weight, updates), opt_state, hvd.allgather(weight).sum()

@hvd.elastic.run
def train(state):
    while state.step < 60:
        if state.step == 25 and hvd.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        before = float(state.weight[0])
        state.weight, state.opt_state, total = step(state.weight, state.opt_state)
        assert abs(float(total) - before * hvd.size()) < 1e-4
        state.step += 1
        if state.step % 10 == 0:
            state.commit()

train(state)
print("done", hvd.size(), state.step, round(float(state.weight[0]), 6), flush=True)
"""


def test_the_others_go_on(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    flags = ["-np", "3", "--min-np", "2", "--max-np", "3", "-H", "localhost:3", "--reset-limit", "1"]
    command = [sys.executable, "-m", "horovod.runner.launch", *flags, sys.executable, str(worker)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    expected = round(0.98**60, 6)
    lines = [line.split("done ")[1].split() for line in output.splitlines() if "done " in line]
    assert len(lines) == 2, output
    for size, steps, weight in lines:
        assert (size, steps) == ("2", "60"), output
        assert abs(float(weight) - expected) < 1e-4, output
