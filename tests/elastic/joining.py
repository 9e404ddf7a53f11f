#!/usr/bin/env python3
"""How long ranks synchronise when the last of them has just joined: horovodrun -np N joining.py [MEGABYTES].

Prints the least, the median and the most of 15 times, in milliseconds: of `TorchState.sync` with a model of 200
megabytes, and of the copy that each rank keeps, which is part of it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import horovod.torch as hvd
import torch
from horovod.torch.elastic import TorchState

ROUNDS = 15
megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200

hvd.init()
is_newcomer = hvd.rank() == hvd.size() - 1
model = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(megabytes * 1_000_000 // 160)) for _ in range(40)])
state = TorchState(model=model)
state.sync()


def timed(call: Callable[[], object]) -> float:
    """Return the milliseconds until the last rank has done it."""
    hvd.barrier()
    begin = time.perf_counter()
    call()
    hvd.barrier()
    return (time.perf_counter() - begin) * 1e3


def sync() -> None:
    """Have the last rank get everything."""
    state._number *= not is_newcomer
    state.sync()


times = {"sync": [], "copy": []}
for _ in range(ROUNDS):
    times["sync"].append(timed(sync))
    times["copy"].append(timed(state.save))
if hvd.rank() == 0:
    for name, values in times.items():
        print(f"{name:6}" + "".join(f"{value:8.0f}" for value in (min(values), statistics.median(values), max(values))))
