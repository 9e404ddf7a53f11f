"""Trains a small convolutional network on scikit-learn's handwritten digits with Lightning 2.

    horovodrun -np 2 python examples/lightning_digits.py

All that Horovod adds to the program for one process is the strategy. It gives all ranks the same start, averages their
gradients, and raises the learning rate with the number of ranks; Lightning shares the data out.
"""

from __future__ import annotations

import argparse

import lightning
import torch
from horovod.torch.lightning import HorovodStrategy
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, random_split


class Reader(lightning.LightningModule):
    """Two convolutions and a linear layer for 8×8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 4 * 4, 10),
        )  # fmt: skip

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of this rank's batch."""
        images, labels = batch
        return functional.cross_entropy(self.layers(images), labels)

    def test_step(self, batch: list[torch.Tensor], number: int) -> None:
        """Log the share of right answers, over all ranks."""
        del number
        images, labels = batch
        right = (self.layers(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True, batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of one process."""
        return torch.optim.Adam(self.parameters(), 0.001)


def main(epochs: int = 8) -> float:
    """Train, and return the accuracy on images that were not trained on."""
    torch.set_num_threads(1)  # the layers are too small to gain from more
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16.0
    data = TensorDataset(images, torch.tensor(digits.target))
    train, test = random_split(data, [len(data) - 360, 360], torch.Generator().manual_seed(1))
    trainer = lightning.Trainer(
        strategy=HorovodStrategy(), accelerator="auto", max_epochs=epochs, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    model = Reader()
    trainer.fit(model, DataLoader(train, 32, shuffle=True))
    found = trainer.test(model, DataLoader(test, 32), verbose=False)[0]["accuracy"]
    if trainer.is_global_zero:
        print(f"accuracy {found:.3f} after {epochs} epochs on {trainer.world_size} ranks", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args().epochs)
