"""Trains a small network to tell three interleaved spirals apart, with gluon of MXNet 1.9.

    horovodrun -np 2 python examples/mxnet_spirals.py

The data is generated. What Horovod adds to the program for one process is marked.
"""

from __future__ import annotations

import argparse

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and the number of the arm that each lies on."""
    random = np.random.RandomState(seed)
    arms = random.randint(0, 3, count)
    along = random.uniform(0.1, 1.0, count)
    angle = 2.0 * np.pi / 3.0 * arms + 5.0 * along + random.normal(0.0, 0.1, count)
    points = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points.astype(np.float32), arms.astype(np.float32)


def main(steps: int = 400, batch_size: int = 128) -> float:
    """Train, and return the accuracy on points that were not trained on."""
    hvd.init()  # 1: the job
    points, arms = spirals(4096, seed=1)
    points, arms = points[hvd.rank() :: hvd.size()], arms[hvd.rank() :: hvd.size()]  # 2: this rank's share of the data
    data = mx.gluon.data.DataLoader(
        mx.gluon.data.ArrayDataset(points, arms), batch_size, shuffle=True, last_batch="rollover"
    )

    model = mx.gluon.nn.HybridSequential()
    model.add(mx.gluon.nn.Dense(64, "relu"), mx.gluon.nn.Dense(64, "relu"), mx.gluon.nn.Dense(3))
    model.initialize(mx.init.Xavier())
    model.hybridize()
    model(mx.nd.array(points[:1]))  # shapes are known from here on
    hvd.broadcast_parameters(model.collect_params(), root_rank=0)  # 3: the same start
    trainer = hvd.DistributedTrainer(  # 4: averaged gradients
        model.collect_params(),
        "adam",
        {"learning_rate": 0.005 * hvd.size()},  # 5: larger batches, larger steps
    )
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    step = 0
    while step < steps // hvd.size():
        for batch, target in data:
            with mx.autograd.record():
                loss = loss_of(model(batch), target)
            loss.backward()
            trainer.step(len(batch))
            if step % 50 == 0 and hvd.rank() == 0:
                print(f"step {step:4d}: loss {loss.mean().asscalar():.4f}", flush=True)
            step += 1

    points, arms = spirals(1024, seed=2)
    accuracy = float(np.mean(model(mx.nd.array(points)).asnumpy().argmax(axis=1) == arms))
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.3f} after {step} steps on {hvd.size()} ranks")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="of all ranks together")
    main(parser.parse_args().steps)
