"""Rows of ranks over two hosts share gradients, columns values; a set comes and goes while the job runs."""

from __future__ import annotations

import horovod.torch as hvd
import torch

rows = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 3])]
hvd.init(process_sets=rows)
me, row = hvd.rank(), rows[hvd.rank() // 2]
print(f"{me} of {hvd.size()}: host {hvd.cross_rank()} of {hvd.cross_size()}, {row.rank()} of {row.size()} in its row")
weight = torch.nn.Parameter(torch.tensor([1.0]))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)], process_set=row)
(weight * me).sum().backward()
optimizer.step()
print(f"{me} weight {weight.item()}")
columns = [hvd.add_process_set([i, i + 2]) for i in range(2)]
value = torch.tensor([me])
print(f"{me} gathered {hvd.allgather(value, process_set=columns[me % 2]).tolist()}")
try:
    hvd.allreduce(value, process_set=rows[1 - me // 2])
except ValueError as error:
    print(f"{me} refused: {type(error).__name__}")
print(f"{me} removed", [hvd.remove_process_set(column) for column in columns], columns[0].process_set_id)
hvd.barrier()
