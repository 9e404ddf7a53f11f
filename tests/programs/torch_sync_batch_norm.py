"""Batch norm over all ranks' batches, and gradients accumulated over backward passes with clipping."""

from __future__ import annotations

import horovod.torch as hvd
import torch
from torch.nn.utils import clip_grad_norm_

hvd.init()
torch.manual_seed(0)
everything = torch.randn(8, 3)
mine = everything[hvd.rank() :: hvd.size()]
layer = hvd.SyncBatchNorm(3)
alone = torch.nn.BatchNorm1d(3)
out, expected = layer(mine), alone(everything)[hvd.rank() :: hvd.size()]
print(f"{hvd.rank()} output {torch.allclose(out, expected, atol=1e-5)}")
print(f"{hvd.rank()} running {torch.allclose(layer.running_var, alone.running_var, atol=1e-5)}")

model = torch.nn.Sequential(torch.nn.Linear(3, 4), hvd.SyncBatchNorm(4), torch.nn.Linear(4, 1))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), 0.1), named_parameters=model.named_parameters(), backward_passes_per_step=2
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for _ in range(3):
    optimizer.zero_grad()
    for _ in range(2):
        model(mine).square().mean().backward()
    optimizer.synchronize()
    clip_grad_norm_(model.parameters(), 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
model.eval()
outputs = hvd.allgather(model(everything)[None])
print(f"{hvd.rank()} agree {torch.allclose(outputs[0], outputs[-1], atol=1e-6)}")
