"""Trains a small network on scikit-learn's handwritten digits in the tasks of a Spark application.

    python examples/spark_digits.py --master 'local[2]'

On a cluster: `spark-submit --master spark://host:7077 examples/spark_digits.py`. Every rank is in a Spark task; what is
returned reaches the driver. What Horovod adds to the program for one process is marked.
"""

from __future__ import annotations

import argparse

import horovod.spark
from pyspark.sql import SparkSession


def train(epochs: int, batch_size: int = 32) -> tuple[float, dict[str, list[float]]]:
    """Train in one rank, and return the accuracy on images that were not trained on, and the network's weights."""
    import horovod.torch as hvd
    import torch
    from sklearn.datasets import load_digits
    from torch.nn import functional

    hvd.init()  # 1: the job, which the Spark task knows
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank())
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    test, mine = order[:360], order[360:][hvd.rank() :: hvd.size()]  # 2: this rank's share
    mine = mine[: 1437 // hvd.size()]  # as many for each: all take the same number of steps

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())  # 3: averaged gradients
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # 4: the same start

    for epoch in range(epochs):
        for chosen in mine[torch.randperm(len(mine))].split(batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {mean:.3f}", flush=True)
    accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    return accuracy, {name: weight.flatten().tolist() for name, weight in model.state_dict().items()}


def main() -> None:
    """Start a session, train in it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", help="Spark's; by default what spark-submit or the configuration says")
    parser.add_argument("--num-proc", type=int, help="ranks; by default spark.default.parallelism")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    builder = SparkSession.builder.appName("digits")
    session = (builder.master(options.master) if options.master else builder).getOrCreate()
    try:
        results = horovod.spark.run(train, (options.epochs,), num_proc=options.num_proc)
    finally:
        session.stop()
    assert all(weights == results[0][1] for _, weights in results), "the ranks have learnt different things"  # noqa: S101
    print(f"accuracy {results[0][0]:.3f} after {options.epochs} epochs on {len(results)} ranks")


if __name__ == "__main__":
    main()
