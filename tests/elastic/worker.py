"""A worker that trains as little as can be, checks every value, and tells what happens to it: worker.py FOLDER.

It goes on until FOLDER/finish is there. FOLDER/workers gets a file for each process.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

sys.modules["torch"] = None  # importing it takes longer than everything else here

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "binding"))

import arrays as hvd  # noqa: E402
import numpy as np  # noqa: E402
from horovod.common.elastic import ObjectState, State, run_fn  # noqa: E402

FOLDER = Path(sys.argv[1])
STEP_SECONDS = 0.005
TELL_EVERY = 20  # steps

told = (FOLDER / "workers" / str(os.getpid())).open("a", buffering=1)
last_step: float | None = None


def tell(what: str, **more: Any) -> None:
    """Append a line."""
    told.write(json.dumps({"what": what, "time": time.monotonic(), "pid": os.getpid(), **more}) + "\n")


def broadcast_object(value: Any) -> Any:
    """Return rank 0's."""
    data = np.frombuffer(pickle.dumps(value), np.uint8)
    size = int(hvd.broadcast(np.array([len(data)]), 0, "elastic.size")[0])
    data = data if hvd.rank() == 0 else np.empty(size, np.uint8)
    return pickle.loads(hvd.broadcast(data, 0, "elastic.object").tobytes())  # noqa: S301 (of this job)


def reset() -> None:
    """Leave the old generation for the next."""
    tell("left")
    hvd.shutdown()
    hvd.init()


def train(state: State) -> None:
    """Step until all are told to finish."""
    global last_step
    goes_on = True
    while True:
        given = np.full(256, float(state.step))
        given[0] = hvd.rank() == 0 and (FOLDER / "finish").exists()
        total = hvd.synchronize(hvd.allreduce_async(given, "step"))
        if not np.all(total[1:] == state.step * hvd.size()) or not np.all(state.weights == state.step):
            tell("wrong", step=state.step, total=total[1:4].tolist(), weights=state.weights[:3].tolist())
            os._exit(70)
        if total[0] > 0:
            return
        state.weights = state.weights + 1.0
        state.step += 1
        now = time.monotonic()
        if goes_on or state.step % TELL_EVERY == 0:
            gap = None if last_step is None or not goes_on else now - last_step
            what = "goes on" if goes_on else "step"
            tell(what, step=state.step, rank=hvd.rank(), size=hvd.size(), gap=gap)
        last_step, goes_on = now, False
        state.commit()
        time.sleep(STEP_SECONDS)


tell("started")
hvd.init()
run_fn(train, reset)(ObjectState(broadcast_object, hvd.rank, step=0, weights=np.zeros(100_000)))
tell("finished")
