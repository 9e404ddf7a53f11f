"""An elastic job under Keras: a worker dies within ``model.fit``, the other goes on, and a new one joins it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WORKER = """
import os, sys, time
import horovod.keras as hvd
import keras
import numpy as np

hvd.init()
x = np.random.RandomState(3).rand(128, 3).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.02, momentum=0.9)), loss="mse")
state = hvd.elastic.KerasState(model, epoch=0, batch=0)
died = sys.argv[1]

class Die(keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        if hvd.rank() == 1 and (state.epoch, batch) == (2, 1) and not os.path.exists(died):
            open(died, "w").close()
            os._exit(7)

class WaitForTheNewOne(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        while hvd.size() == 1:
            time.sleep(0.05)
            state.check_host_updates()

@hvd.elastic.run
def train(state):
    print("from", state.epoch, hvd.size(), flush=True)
    mine = slice(hvd.rank(), None, hvd.size())
    model.fit(x[mine], y[mine], batch_size=16, epochs=20 - state.epoch, verbose=0, callbacks=[
        hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.CommitStateCallback(state, 2), Die(), WaitForTheNewOne()])

train(state)
weights = [float(np.sum(weight, dtype="float64")) for weight in model.get_weights()]
print("done", hvd.size(), state.epoch, model.evaluate(x, y, verbose=0) < 0.01, weights, flush=True)
"""


def test_a_worker_is_replaced(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    flags = ["-np", "2", "--min-np", "1", "--max-np", "2", "-H", "localhost:3"]
    program = [sys.executable, str(worker), str(tmp_path / "died")]
    command = [sys.executable, "-m", "horovod.runner.launch", *flags, *program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where a killed rank leaves what TensorFlow generated
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env=environment)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    starts = sorted(line.split("from ")[1] for line in ended.stdout.splitlines() if "from " in line)
    assert starts == ["0 2", "0 2", "2 1", "3 2", "3 2"], output
    ends = [line.split("done ")[1] for line in ended.stdout.splitlines() if "done " in line]
    assert len(ends) == 2, output
    assert ends[0] == ends[1], output
    assert ends[0].startswith("2 20 True"), output
