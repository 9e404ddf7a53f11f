"""Handles, groups, uneven parts, sparse tensors and joined ranks, by the functions of `horovod.torch.mpi_ops`."""

from __future__ import annotations

import torch
from horovod.torch import allgather_object, broadcast_object
from horovod.torch.mpi_ops import (
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast_async_,
    grouped_allreduce_async,
    init,
    join,
    poll,
    rank,
    reducescatter,
    size,
    sparse_allreduce_async,
    synchronize,
)

init()
me, n = rank(), size()
tensors = [torch.full((5,), float(me + i)) for i in range(20)]
handles = [allreduce_async_(tensor, name=f"t{i}", op=Average) for i, tensor in enumerate(tensors)]
while not all(poll(handle) for handle in handles):
    pass
results = [synchronize(handle) for handle in reversed(handles)]
print(f"{me} in place", results[0] is tensors[-1], [tensor[0].item() for tensor in tensors[:3]])
grouped = synchronize(grouped_allreduce_async([torch.tensor([me + 1]), torch.tensor([2 * me])], op=Sum, name="g"))
print(f"{me} group", [tensor.item() for tensor in grouped])
extremes = [synchronize(allreduce_async_(torch.tensor([me + 1]), op=op)).item() for op in (Min, Max, Product)]
print(f"{me} min max product", extremes)
gathered = synchronize(allgather_async(torch.full((me + 1, 2), me), name="uneven"))
print(f"{me} uneven", gathered[:, 0].tolist())
print(f"{me} broadcast", synchronize(broadcast_async_(torch.tensor([me]), root_rank=n - 1)).item())
received, splits = alltoall(torch.arange(n * (n + 1) // 2) + 10 * me, splits=torch.arange(1, n + 1, dtype=torch.int32))
print(f"{me} alltoall", received.tolist(), splits.tolist())
print(f"{me} equal parts", [each.tolist() for each in synchronize(alltoall_async(torch.arange(n) + 10 * me))])
print(f"{me} part", reducescatter(torch.arange(2 * n), op=Sum).tolist())
indices = torch.tensor([[me, n]])
sparse = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (n + 1,))
print(f"{me} sparse", sparse_allreduce_async(sparse, name="s", op=Sum)().to_dense().tolist())
print(f"{me} objects", broadcast_object({"root": me}, root_rank=1), allgather_object("ab"[me % 2] * (me + 1)))
barrier()
for step in range(me + 1):
    synchronize(allreduce_async_(torch.ones(2), name=f"step{step}"))
print(f"{me} last", join())
