"""An elastic job under TensorFlow: a worker is killed while it trains, and the others go on in their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WORKER = """
import os, signal, sys
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
weight = tf.Variable([1.0])
state = hvd.elastic.TensorFlowState([weight], step=0)

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weight * weight)
    [gradient] = hvd.DistributedGradientTape(tape).gradient(loss, [weight])
    weight.assign_sub(0.01 * gradient)

@hvd.elastic.run
def train(state):
    while state.step < 60:
        if state.step == 25 and hvd.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        step()
        state.step += 1
        if state.step % 10 == 0:
            state.commit()

train(state)
print("done", hvd.size(), state.step, round(float(weight[0]), 6), flush=True)
"""


def test_the_others_go_on(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    flags = ["-np", "3", "--min-np", "2", "--max-np", "3", "-H", "localhost:3", "--reset-limit", "1"]
    command = [sys.executable, "-m", "horovod.runner.launch", *flags, sys.executable, str(worker)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where a killed rank leaves what TensorFlow generated
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    expected = round(0.98**60, 6)
    lines = [line.split("done ")[1].split() for line in output.splitlines() if "done " in line]
    assert len(lines) == 2, output
    for size, steps, weight in lines:
        assert (size, steps) == ("2", "60"), output
        assert abs(float(weight) - expected) < 1e-4, output
