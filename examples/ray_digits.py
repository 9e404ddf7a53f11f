"""Trains a small network on scikit-learn's handwritten digits, in workers that are actors of a Ray cluster.

    python examples/ray_digits.py --workers 2

Without RAY_ADDRESS the script starts a cluster of its own, of this machine. What a worker logs reaches the driver while
it trains. With --min-workers the job is elastic: it goes on when workers or nodes are lost, and takes new ones in.
"""

from __future__ import annotations

import argparse

import ray
from horovod.ray import RayExecutor


def train(epochs: int, batch_size: int, rate: float) -> float:
    """Train in one worker; return the share of the test images that the network reads right."""
    import horovod.torch as hvd
    import torch
    from horovod.ray import ray_logger
    from sklearn.datasets import load_digits
    from torch import nn

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(42)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images))  # the same on all ranks
    test, training = order[:360], order[360:]

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0)

    @hvd.elastic.run
    def loop(state: hvd.elastic.TorchState) -> None:
        while state.epoch < epochs:
            shuffled = training[torch.randperm(len(training), generator=torch.Generator().manual_seed(state.epoch))]
            mine = shuffled[hvd.rank() :: hvd.size()][: len(training) // hvd.size()]
            for chosen in mine.split(batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
                loss.backward()
                optimizer.step()
            state.epoch += 1
            mean = hvd.allreduce(loss.detach(), name="loss").item()
            if hvd.rank() == 0:
                ray_logger.log({"epoch": state.epoch, "loss": mean, "workers": hvd.size()})
            state.commit()

    loop(state)
    return (model(images[test]).argmax(1) == labels[test]).double().mean().item()


def main() -> None:
    """Start the workers, train, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--min-workers", type=int, help="an elastic job of so many at least, and --workers at most")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="images of one step in one worker")
    parser.add_argument("--lr", type=float, default=0.003)
    options = parser.parse_args()

    ray.init()
    if options.min_workers is None:
        numbers = {"num_workers": options.workers}
    else:
        numbers = {"min_workers": options.min_workers, "max_workers": options.workers}
    executor = RayExecutor(RayExecutor.create_settings(), **numbers)
    executor.start()

    def show(info: dict[str, float]) -> None:
        print(f"epoch {info['epoch']:2d} loss {info['loss']:.4f} on {info['workers']} workers", flush=True)

    accuracies = executor.run(train, args=[options.epochs, options.batch_size, options.lr], callbacks=[show])
    executor.shutdown()
    print(f"final accuracy {100 * accuracies[0]:.2f} % on {len(accuracies)} workers")


if __name__ == "__main__":
    main()
