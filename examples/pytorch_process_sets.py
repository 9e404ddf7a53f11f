"""Two models learn side by side in one job: the even ranks one, the odd ranks another, without waiting for each other.

horovodrun -np 4 python examples/pytorch_process_sets.py
"""

from __future__ import annotations

import horovod.torch as hvd
import torch
from torch.nn import functional


def main() -> None:
    """Fit a sine on the even ranks and a parabola on the odd ones."""
    hvd.init(process_sets="dynamic")
    torch.set_num_threads(1)
    every_other = (
        [hvd.add_process_set(range(first, hvd.size(), 2)) for first in range(min(2, hvd.size()))]
        if hvd.size() > 1
        else [hvd.global_process_set]
    )
    mine = next(process_set for process_set in every_other if process_set.included())
    wanted = torch.sin if hvd.rank() % 2 == 0 else torch.square

    torch.manual_seed(hvd.rank() % 2)  # the ranks of a set begin with the same model
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.02), model.named_parameters(), process_set=mine
    )
    torch.manual_seed(100 + hvd.rank())  # and see different points
    for _ in range(200):
        x = torch.rand(32, 1) * 4 - 2
        optimizer.zero_grad()
        functional.mse_loss(model(x), wanted(x)).backward()
        optimizer.step()

    x = torch.linspace(-2, 2, 50).view(-1, 1)
    error = functional.mse_loss(model(x), wanted(x)).detach()
    error = hvd.allreduce(error, name="error", process_set=mine)
    for name, value in sorted(set(hvd.allgather_object((wanted.__name__, round(error.item(), 5))))):
        if hvd.rank() == 0:
            print(f"{name}: mean squared error {value}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
