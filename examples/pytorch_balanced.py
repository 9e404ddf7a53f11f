"""Ranks of unlike speed train one model: each takes as much of a step's batch as it works through in the same time.

horovodrun -np 2 python examples/pytorch_balanced.py

The last rank is slowed down here, as a host with other work is. Every ten steps the ranks tell each other how long they
take for a sample, waits left out, and share the batch out anew. A step's gradient is the mean over its whole batch,
however that is shared out: each rank divides its sum by the size of all, and the optimizer adds gradients up.
"""

from __future__ import annotations

import argparse
import time

import horovod.torch as hvd
import torch
from torch import nn

BATCH = 256  # of all ranks together
EVERY = 10  # steps


def shares(seconds: list[float], batch: int) -> list[int]:
    """Return how many samples each rank gets, at least one, so that all take the same time.

    Parameters
    ----------
    seconds : list of float
        What each rank takes for a sample.
    batch : int
        Samples of all.
    """
    speed = sum(1 / each for each in seconds)
    ends = [round(batch * sum(1 / each for each in seconds[: rank + 1]) / speed) for rank in range(len(seconds))]
    ends = [min(max(end, rank + 1), batch - len(seconds) + rank + 1) for rank, end in enumerate(ends)]
    return [end - begin for begin, end in zip([0, *ends], ends)]


def work(model: nn.Module, inputs: torch.Tensor, slowness: float) -> float:
    """Compute gradients, and return the seconds of it; they are reduced meanwhile, and waited for by nobody."""
    begin = time.perf_counter()
    targets = inputs.sin().sum(1, keepdim=True)
    (nn.functional.mse_loss(model(inputs), targets, reduction="sum") / BATCH).backward()
    time.sleep(slowness * len(inputs))
    return time.perf_counter() - begin


def main() -> None:
    """Train, and tell how the batch is shared out and what a step takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--slow-ms", type=float, default=0.4, help="that the last rank takes longer for a sample")
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    inner = torch.optim.Adam(model.parameters(), 0.01)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), op=hvd.Sum)
    slowness = options.slow_ms / 1000 if hvd.rank() == hvd.size() - 1 else 0.0
    counts = shares([1.0] * hvd.size(), BATCH)
    for first in range(0, options.steps, EVERY):
        begin, busy = time.perf_counter(), 0.0
        for step in range(first, first + EVERY):
            source = torch.Generator().manual_seed(step)
            mine = torch.randn(BATCH, 16, generator=source).split(counts)[hvd.rank()]
            optimizer.zero_grad()
            busy += work(model, mine, slowness)
            optimizer.step()
        if hvd.rank() == 0:
            milliseconds = (time.perf_counter() - begin) * 1000 / EVERY
            print(f"batches of {counts}: {milliseconds:.1f} ms a step", flush=True)
        counts = shares(hvd.allgather_object(busy / EVERY / counts[hvd.rank()]), BATCH)


if __name__ == "__main__":
    main()
