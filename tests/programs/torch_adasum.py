"""Adasum with a schedule of rates, and what it makes of equal and of orthogonal gradients."""

from __future__ import annotations

import horovod.torch as hvd
import torch
from torch.optim.lr_scheduler import StepLR

hvd.init()
one, other = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 4.0])
print(f"{hvd.rank()} equal {hvd.allreduce(one, op=hvd.Adasum).tolist()}")
print(f"{hvd.rank()} orthogonal {hvd.allreduce(other if hvd.rank() else one, op=hvd.Adasum).tolist()}")
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.constant_(model.weight, 1.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Adasum)
scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.eye(2)[hvd.rank() % 2]).backward()
    optimizer.step()
    scheduler.step()
print(f"{hvd.rank()} weight {model.weight.tolist()} lr {scheduler.get_last_lr()}")
