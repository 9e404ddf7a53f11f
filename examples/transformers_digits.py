"""Trains a small vision transformer on scikit-learn's handwritten digits with the Trainer of transformers.

    horovodrun -np 2 python examples/transformers_digits.py

The Trainer takes the default group of torch.distributed, which is the job here: it shares the data out, averages the
gradients and gives all ranks the same start by itself.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed


class Digits(Dataset):
    """Images of 8×8 and what they show, as the model takes them."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = torch.tensor(images, dtype=torch.float32)[:, None] / 8.0 - 1.0
        self.labels = torch.tensor(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def accuracy(prediction: Any) -> dict[str, float]:
    """Return the share of right answers of all ranks."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main(epochs: int = 12) -> float:
    """Train, and return the accuracy on images that were not trained on."""
    hvd.init()
    torch.distributed.init_process_group("roda")  # all that Horovod adds to the program for one process
    torch.set_num_threads(1)  # the layers are too small to gain from more
    set_seed(1)
    digits = load_digits()
    order = np.random.RandomState(1).permutation(len(digits.target))
    test, train = (Digits(digits.images[part], digits.target[part]) for part in (order[:360], order[360:]))
    shape = {"image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 64, "intermediate_size": 128}
    model = ViTForImageClassification(ViTConfig(**shape, num_hidden_layers=2, num_attention_heads=4, num_labels=10))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=64 // hvd.size(), learning_rate=0.004,
            use_cpu=not torch.cuda.is_available(), report_to=[], save_strategy="no", disable_tqdm=True,
            logging_strategy="no", ddp_find_unused_parameters=False,
        )  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=test, compute_metrics=accuracy)
        trainer.train()
        found = trainer.evaluate()["eval_accuracy"]
    if trainer.is_world_process_zero():
        print(f"accuracy {found:.3f} after {epochs} epochs on {trainer.args.world_size} ranks", flush=True)
    torch.distributed.destroy_process_group()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    main(parser.parse_args().epochs)
