"""Trains a small network to read digits that are drawn on seven segments, in JAX with an optimizer of optax.

    horovodrun -np 2 python examples/jax_digits.py

The data is generated. What Horovod adds to the program for one process is marked.
"""

from __future__ import annotations

import argparse
from typing import Any

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax

# Which of the segments top, upper left, upper right, middle, lower left, lower right, bottom are lit.
LIT = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
PLACES = [
    (0, slice(1, 4)), (slice(1, 3), 0), (slice(1, 3), 4), (3, slice(1, 4)), (slice(4, 6), 0), (slice(4, 6), 4),
    (6, slice(1, 4)),
]  # fmt: skip


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy 9×7 images of digits, each somewhere in its frame, and what they show."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, count)
    images = random.normal(0.0, 0.2, (count, 9, 7)).astype("float32")
    for image, label in zip(images, labels):
        top, left = random.randint(0, 3), random.randint(0, 3)
        for place, lit in zip(PLACES, LIT[label]):
            image[top : top + 7, left : left + 5][place] += int(lit)
    return images.reshape(count, -1), labels


def network(seed: int, sizes: tuple[int, ...] = (63, 128, 10)) -> list[dict[str, jax.Array]]:
    """Return the parameters of dense layers."""
    keys = jax.random.split(jax.random.PRNGKey(seed), len(sizes))
    return [
        {"weight": jax.random.normal(key, (a, b)) * (2 / a) ** 0.5, "bias": jnp.zeros(b)}
        for key, a, b in zip(keys, sizes, sizes[1:])
    ]


def logits(params: Any, images: Any) -> Any:
    """Return how likely each image shows each digit."""
    for layer in params[:-1]:
        images = jax.nn.relu(images @ layer["weight"] + layer["bias"])
    return images @ params[-1]["weight"] + params[-1]["bias"]


def main(epochs: int = 8, batch_size: int = 64) -> float:
    """Train, and return the accuracy on images that were not trained on."""
    hvd.init()  # 1: the job
    images, labels = digits(4096, seed=1)
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]  # 2: this rank's share
    optimizer = hvd.distributed(optax.adam(0.002 * hvd.size()))  # 3: larger batches and steps, 4: averaged gradients
    params = hvd.broadcast_parameters(network(seed=hvd.rank()), root_rank=0)  # 5: the same start
    state = optimizer.init(params)

    def loss_of(params: Any, images: Any, labels: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels).mean()

    @jax.jit
    def step(params: Any, state: Any, images: Any, labels: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, hvd.allreduce(loss, name="loss")

    for epoch in range(epochs):
        order = np.random.RandomState(epoch).permutation(len(images))
        for begin in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[begin : begin + batch_size]
            params, state, loss = step(params, state, images[chosen], labels[chosen])
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {float(loss):.3f}", flush=True)

    images, labels = digits(1024, seed=2)
    accuracy = float(np.mean(np.argmax(logits(params, images), axis=1) == labels))
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.3f} after {epochs} epochs on {hvd.size()} ranks")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args().epochs)
