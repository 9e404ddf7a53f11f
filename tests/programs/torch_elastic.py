"""As the elastic scripts: a sampler that knows what was done, a state of the program's own, a rank that dies."""

from __future__ import annotations

import os
import signal
import sys

import horovod.torch as hvd
import torch
from horovod.torch.elastic import ElasticSampler, TorchState

hvd.init()
died = os.path.join(sys.argv[1], "died")
dataset = torch.utils.data.TensorDataset(torch.arange(48, dtype=torch.float32))
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(model.weight, 1.0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-4), model.named_parameters())


class Counting(TorchState):
    """Has something of its own to save, restore and synchronise."""

    def __init__(self, **kwargs: object) -> None:
        self.seen: list[int] = []
        self.saved: list[int] = []
        super().__init__(**kwargs)

    def save(self) -> None:
        self.saved = list(self.seen)
        super().save()

    def restore(self) -> None:
        self.seen = list(self.saved)
        super().restore()


sampler = ElasticSampler(dataset, shuffle=False)
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
state = Counting(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
resets: list[int] = []
state.register_reset_callbacks([lambda: resets.append(hvd.size())])


@hvd.elastic.run
def train(state: Counting) -> None:
    while state.epoch < 2:
        for idx, (data,) in enumerate(loader):
            if state.epoch == 0 and state.batch == 2 and hvd.rank() == 1 and not os.path.exists(died):
                open(died, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            model(data[:, None]).mean().backward()
            optimizer.step()
            state.seen += data.int().tolist()
            state.sampler.record_batch(idx, 4)
            state.batch += 1
            state.commit()
        state.batch = 0
        together = [value for values in hvd.allgather_object(state.seen) for value in values]
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}: {len(set(together))} of 48 by {hvd.size()}, resets {resets}", flush=True)
        state.seen = []
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(state)
weights = hvd.allgather(model.weight.detach())
print(f"done, weights agree {bool((weights == weights[0]).all())}")
