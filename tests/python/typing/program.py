"""A program as users write it, for type checkers: it is never run, and strict ones find nothing wrong with it."""

from __future__ import annotations

import horovod
import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.elastic import ElasticSampler, TorchState
from typing_extensions import assert_type

assert_type(horovod.__version__, str)
hvd.init(process_sets="dynamic")
assert_type(hvd.rank(), int)
assert_type(hvd.is_initialized(), bool)
number: int = hvd.Sum

# --- collectives ---

x = torch.zeros(3)
assert_type(hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16), torch.Tensor)
assert_type(hvd.allreduce_(x, name="a"), torch.Tensor)
handle = hvd.allreduce_async(x)
assert_type(hvd.poll(handle), bool)
result: torch.Tensor = hvd.synchronize(handle)
assert_type(hvd.grouped_allreduce([x, x]), "list[torch.Tensor]")
assert_type(hvd.allgather(x), torch.Tensor)
assert_type(hvd.broadcast(x, root_rank=0), torch.Tensor)
assert_type(hvd.alltoall(x), torch.Tensor)
assert_type(hvd.alltoall(x, splits=[1, 2]), "tuple[torch.Tensor, torch.Tensor]")
assert_type(hvd.reducescatter(x), torch.Tensor)
assert_type(hvd.reduce(x, root_rank=0), "torch.Tensor | None")
assert_type(hvd.join(), int)
hvd.barrier()

evens = hvd.add_process_set([0, 2])
assert_type(evens, hvd.ProcessSet)
assert_type(evens.rank(), "int | None")
assert_type(hvd.remove_process_set(evens), bool)

# --- training ---

model = torch.nn.Sequential(torch.nn.Linear(4, 2), hvd.SyncBatchNorm(2))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), op=hvd.Average
)
adam = torch.optim.Adam(model.parameters())
adam = hvd.DistributedOptimizer(adam)  # as the documentation has it
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer.zero_grad()
optimizer.synchronize()
with optimizer.skip_synchronize():
    optimizer.step()
sharded = hvd.DistributedOptimizer(torch.optim.AdamW(model.parameters()), model.named_parameters(), sharded=True)
assert_type(sharded.clip_grad_norm_(1.0), torch.Tensor)
epoch: int = hvd.broadcast_object(3, root_rank=0)
losses: list[float] = hvd.allgather_object(0.5)

# --- elastic ---

sampler = ElasticSampler(list(range(10)), shuffle=False)
state = TorchState(model=model, optimizer=optimizer, epoch=0, sampler=sampler)
state.register_reset_callbacks([lambda: None])


@hvd.elastic.run
def train(state: TorchState, rate: float) -> int:
    state.epoch += 1
    state.commit()
    return int(state.epoch)


try:
    assert_type(train(state, 0.1), int)
except HorovodInternalError as error:
    assert_type(error.lost_rank, "int | None")
hvd.shutdown()


# --- jobs started from Python ---


def work(number: int) -> str:
    return str(number)


assert_type(horovod.run(work, args=(1,), num_proc=2), "list[str]")
