"""A few steps of training; every rank ends with the same weights as one process that sees all data."""

import horovod.torch as hvd
import torch
from checks import require, tell

hvd.init()
torch.manual_seed(7)
data = torch.randn(8 * hvd.size(), 64)
labels = torch.randint(10, (8 * hvd.size(),))


def model() -> torch.nn.Module:
    """Return the same network on every call."""
    torch.manual_seed(11)
    return torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10)).double()


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, wanted: torch.Tensor) -> None:
    """Make five steps."""
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs.double()), wanted).backward()
        optimizer.step()


ours, alone = model(), model()
if hvd.rank() > 0:
    torch.nn.init.zeros_(ours[0].weight)
hvd.broadcast_parameters(ours.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9), named_parameters=ours.named_parameters()
)
part = slice(8 * hvd.rank(), 8 * (hvd.rank() + 1))
train(ours, optimizer, data[part], labels[part])
train(alone, torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9), data, labels)
for mine, expected in zip(ours.parameters(), alone.parameters()):
    require(torch.allclose(mine, expected, rtol=1e-9), "weights after five steps")
tell(f"fine {hvd.rank()}")
hvd.shutdown()
