"""Trains a small network to tell three interleaved spirals apart, with a training loop of its own in TensorFlow 2.

    horovodrun -np 2 python examples/tensorflow2_spirals.py

The data is generated. What Horovod adds to the program for one process is marked.
"""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and the number of the arm that each lies on."""
    random = np.random.RandomState(seed)
    arms = random.randint(0, 3, count)
    along = random.uniform(0.1, 1.0, count)
    angle = 2.0 * np.pi / 3.0 * arms + 5.0 * along + random.normal(0.0, 0.1, count)
    points = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points.astype(np.float32), arms


def main(steps: int = 400, batch_size: int = 128) -> float:
    """Train, and return the accuracy on points that were not trained on."""
    hvd.init()  # 1: the job
    points, arms = spirals(4096, seed=1)
    points, arms = points[hvd.rank() :: hvd.size()], arms[hvd.rank() :: hvd.size()]  # 2: this rank's share of the data
    data = tf.data.Dataset.from_tensor_slices((points, arms)).repeat().shuffle(4096, seed=hvd.rank()).batch(batch_size)

    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(3)]
    )
    model.build((None, 2))
    optimizer = tf.keras.optimizers.Adam(0.005 * hvd.size())  # 3: larger batches, larger steps
    optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    hvd.broadcast_variables(model.variables + optimizer.variables, root_rank=0)  # 4: the same start

    @tf.function
    def train(points: tf.Tensor, arms: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(arms, model(points, training=True))
        tape = hvd.DistributedGradientTape(tape)  # 5: averaged gradients
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    for step, batch in enumerate(data.take(steps // hvd.size())):
        loss = train(*batch)
        if step % 50 == 0 and hvd.rank() == 0:
            print(f"step {step:4d}: loss {float(loss):.4f}", flush=True)

    points, arms = spirals(1024, seed=2)
    accuracy = float(np.mean(np.argmax(model(points), axis=1) == arms))
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.3f} after {steps // hvd.size()} steps on {hvd.size()} ranks")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="of all ranks together")
    main(parser.parse_args().steps)
