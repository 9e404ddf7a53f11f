"""Options of the command line reach the engine, and tuning writes what it tried."""

from __future__ import annotations

import os

import horovod.torch as hvd
import torch

hvd.init()
tensors = [torch.ones(1000) for _ in range(8)]
for _ in range(60):
    handles = [hvd.allreduce_async(tensor, name=f"gradient{i}") for i, tensor in enumerate(tensors)]
    for handle in handles:
        hvd.synchronize(handle)
names = ("HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY", "HOROVOD_AUTOTUNE")
print(f"{hvd.rank()}", *(os.environ.get(name) for name in names))
is_root = hvd.rank() == 0
hvd.shutdown()
if is_root:
    with open(os.environ["HOROVOD_AUTOTUNE_LOG"]) as log:
        print("log has samples", len(log.read().splitlines()) > 1)
