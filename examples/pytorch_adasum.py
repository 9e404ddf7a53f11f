"""Trains with Adasum: ranks combine their updates, so the learning rate need not change with their number.

horovodrun -np 2 python examples/pytorch_adasum.py     # the number of ranks must be a power of two
"""

from __future__ import annotations

import horovod.torch as hvd
import torch
from torch.nn import functional


def make_data(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points in the plane, and whether they lie in a ring."""
    points = torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed))
    radius = points.norm(dim=1)
    return points, ((radius > 0.7) & (radius < 1.5)).long()


def main() -> None:
    """Train and report."""
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(), op=hvd.Adasum
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(300):
        points, labels = make_data(step * hvd.size() + hvd.rank(), 64)
        optimizer.zero_grad()
        functional.cross_entropy(model(points), labels).backward()
        optimizer.step()

    points, labels = make_data(10**6, 2000)
    accuracy = (model(points).argmax(1) == labels).float().mean()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    spread = hvd.allreduce(weights, name="largest", op=hvd.Max) - hvd.allreduce(weights, name="least", op=hvd.Min)
    if hvd.rank() == 0:
        print(f"accuracy {100 * accuracy:.1f} %, the ranks' parameters differ by {spread.max():.1e} at most")
    hvd.shutdown()


if __name__ == "__main__":
    main()
