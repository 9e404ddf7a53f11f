"""Trains a small convolutional network on scikit-learn's handwritten digits, on as many processes as the job has.

    horovodrun -np 2 python examples/pytorch_digits.py --epochs 12 --timeline /tmp/digits.json

Every process takes the GPU of its local rank if the machine has one for it, else the CPU. The seed is fixed: runs with
the same number of processes follow the same curve, whichever transport carries the gradients.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    """Two convolutions and two linear layers for 8×8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of the ten digits."""
        hidden = functional.relu(self.conv1(images))
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        hidden = functional.dropout(hidden.flatten(1), 0.25, self.training)
        return self.fc2(functional.relu(self.fc1(hidden)))


def load(seed: int) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return training and test data, the same split on all ranks."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    test, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[test], labels[test])


class Shard:
    """This rank's share of the training data, shuffled anew each epoch; every rank gets the same number of batches."""

    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], batch_size: int, seed: int) -> None:
        self.images, self.labels = data
        self.batch_size, self.seed = batch_size, seed
        self.per_rank = len(self.images) // hvd.size()

    def __len__(self) -> int:
        return -(-self.per_rank // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the batches of one epoch."""
        order = torch.randperm(len(self.images), generator=torch.Generator().manual_seed(self.seed + number))
        mine = order[hvd.rank() :: hvd.size()][: self.per_rank]
        for chosen in mine.split(self.batch_size):
            yield self.images[chosen], self.labels[chosen]


def show_progress(epoch: int, epochs: int, done: int, total: int, loss: float) -> None:
    """Draw a bar, on rank 0: in place on a terminal, else one line per epoch."""
    if hvd.rank() != 0 or (done < total and not sys.stdout.isatty()):
        return
    filled = 30 * done // total
    end = "\n" if done == total else "\r"
    print(f"epoch {epoch + 1:2d}/{epochs} [{'=' * filled:<30}] loss {loss:.6f}", end=end, flush=True)


def evaluate(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Return the share of right answers, every rank judging its part of the data."""
    images, labels = (tensor[hvd.rank() :: hvd.size()] for tensor in data)
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum().double()
    counts = hvd.allreduce(torch.stack([right, torch.full_like(right, len(labels))]), op=hvd.Sum, name="evaluation")
    return (counts[0] / counts[1]).item()


def choose_device(name: str | None) -> torch.device:
    """Return the device to train on: the one that is named, else this rank's GPU, else the CPU."""
    if name is None:
        name = f"cuda:{hvd.local_rank()}" if hvd.local_rank() < torch.cuda.device_count() else "cpu"
    return torch.device(name)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="images of one step on one rank")
    parser.add_argument("--lr", type=float, default=0.003, help="learning rate of one process")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--device", help="as PyTorch names it; default: the GPU of the local rank, else the CPU")
    parser.add_argument("--timeline", help="file for a Chrome trace of what the engine did, written by rank 0")
    return parser.parse_args()


def main() -> None:
    """Train and report."""
    options = parse()
    if options.timeline:
        os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")
    hvd.init()
    torch.set_num_threads(1)  # the layers are too small to gain from more
    torch.manual_seed(options.seed)
    if options.timeline:
        hvd.start_timeline(options.timeline)

    device = choose_device(options.device)
    train, test = (tuple(tensor.to(device) for tensor in part) for part in load(options.seed))
    shard = Shard(train, options.batch_size, options.seed)
    model = Net().to(device)
    # As many processes, as many times the batch: the rate grows with it.
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    started = time.perf_counter()
    for epoch in range(options.epochs):
        total = torch.zeros(1, dtype=torch.float64, device=device)
        for step, (images, labels) in enumerate(shard.epoch(epoch), 1):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            if step < len(shard):
                show_progress(epoch, options.epochs, step, len(shard), total.item() / step)
        schedule.step()
        mean = hvd.allreduce(total, name="loss").item() / len(shard)
        show_progress(epoch, options.epochs, len(shard), len(shard), mean)
    seconds = time.perf_counter() - started

    accuracy = evaluate(model, test)
    if options.timeline:
        hvd.stop_timeline()
    if hvd.rank() == 0:
        images = options.epochs * shard.per_rank * hvd.size()
        print(f"final accuracy {100 * accuracy:.2f} % on {len(test[0])} test images")
        print(f"throughput {images / seconds:.0f} images/s on {hvd.size()} processes, {seconds:.1f} s")
        if options.timeline:
            print(f"timeline {options.timeline}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
