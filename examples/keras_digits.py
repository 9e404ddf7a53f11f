"""Trains a small network to read digits that are drawn on seven segments, with ``model.fit`` of Keras 3 or 2.

    horovodrun -np 2 python examples/keras_digits.py

The data is generated. What Horovod adds to the program for one process is marked. Keras computes with TensorFlow, or
with what KERAS_BACKEND says: torch or jax.
"""

from __future__ import annotations

import argparse

import horovod.keras as hvd
import keras
import numpy as np

# Which of the segments top, upper left, upper right, middle, lower left, lower right, bottom are lit.
LIT = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
PLACES = [
    (0, slice(1, 4)), (slice(1, 3), 0), (slice(1, 3), 4), (3, slice(1, 4)), (slice(4, 6), 0), (slice(4, 6), 4),
    (6, slice(1, 4)),
]  # fmt: skip


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy 10×8 images of digits, each somewhere in its frame, and what they show."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, count)
    images = random.normal(0.0, 0.2, (count, 10, 8)).astype("float32")
    for image, label in zip(images, labels):
        top, left = random.randint(0, 4), random.randint(0, 4)
        for place, lit in zip(PLACES, LIT[label]):
            image[top : top + 7, left : left + 5][place] += int(lit)
    return images[..., None], labels


def main(epochs: int = 8, batch_size: int = 64) -> float:
    """Train, and return the accuracy on images that were not trained on."""
    hvd.init()  # 1: the job
    images, labels = digits(4096, seed=1)
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]  # 2: this rank's share

    model = keras.Sequential(
        [
            keras.layers.Input((10, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    rate = 0.003 * hvd.size()  # 3: larger batches, larger steps
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(rate))  # 4: averaged gradients
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # 5: the same start
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
    ]
    verbose = 2 if hvd.rank() == 0 else 0
    model.fit(images, labels, batch_size=batch_size, epochs=epochs, callbacks=callbacks, verbose=verbose)

    images, labels = digits(1024, seed=2)
    accuracy = float(np.mean(np.argmax(model.predict(images, verbose=0), axis=1) == labels))
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.3f} after {epochs} epochs on {hvd.size()} ranks")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args().epochs)
