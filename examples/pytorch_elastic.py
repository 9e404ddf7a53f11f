"""Fits a line while workers come and go. No sample of an epoch is lost or repeated when that happens.

    horovodrun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python examples/pytorch_elastic.py

`hosts.sh` prints the slots, `localhost:2` for instance. Change what it prints, or kill a worker, and look.
"""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from horovod.torch.elastic import ElasticSampler, TorchState

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()

hvd.init()
torch.manual_seed(1)
inputs = torch.rand(512, 1)
dataset = torch.utils.data.TensorDataset(inputs, 3 * inputs + 1)
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
sampler = ElasticSampler(dataset)
loader = torch.utils.data.DataLoader(dataset, batch_size=options.batch_size, sampler=sampler)
state = TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, loss=0.0)
state.register_reset_callbacks([lambda: print(f"rank {hvd.rank()} of {hvd.size()} goes on", flush=True)])


@hvd.elastic.run
def train(state: TorchState) -> float:
    """Train from where the state is."""
    while state.epoch < options.epochs:
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            state.loss = loss.item()
            sampler.record_batch(i, options.batch_size)
            state.commit()
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        state.commit()
    return state.loss


train(state)
if hvd.rank() == 0:
    print(f"y = {model.weight.item():.1f} x + {model.bias.item():.1f}")
