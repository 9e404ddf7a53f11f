"""Trains a small network on scikit-learn's handwritten digits, as rows of a DataFrame, with an estimator of Spark ML.

    python examples/spark_estimator.py --master 'local[2]' --store /shared/folder

The DataFrame goes to Parquet files in the store, which all workers must reach; each rank, in a task of Spark, reads its
part of the rows. The model that comes back adds a column with its predictions to any DataFrame.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import torch
from horovod.spark.common.store import Store
from horovod.spark.torch import TorchEstimator
from pyspark.ml.linalg import DenseVector
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_digits


def cross_entropy(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Return the loss; labels come as floats."""
    return torch.nn.functional.cross_entropy(output, label.long())


def accuracy(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Return the share of images whose digit is found."""
    return (output.argmax(1) == label).float().mean()


def train(rows: DataFrame, options: argparse.Namespace, folder: str) -> float:
    """Train on four fifths of the rows; return the accuracy on the others."""
    train_rows, test_rows = rows.randomSplit([0.8, 0.2], seed=1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    estimator = TorchEstimator(
        num_proc=options.num_proc,
        store=Store.create(options.store or folder),
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.003),
        loss=cross_entropy,
        metrics=[[accuracy]],
        feature_cols=["image"],
        label_cols=["digit"],
        validation=0.1,
        epochs=options.epochs,
        random_seed=1,
    )
    predicted = estimator.fit(train_rows).transform(test_rows).select("digit", "digit__output").collect()
    return float(np.mean([row["digit"] == np.argmax(row["digit__output"]) for row in predicted]))


def main() -> None:
    """Start a session, train in it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", help="Spark's; by default what spark-submit or the configuration says")
    parser.add_argument("--store", help="folder for data and checkpoints; by default one of this machine, for a while")
    parser.add_argument("--num-proc", type=int, help="ranks; by default spark.default.parallelism")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    builder = SparkSession.builder.appName("digits")
    session = (builder.master(options.master) if options.master else builder).getOrCreate()
    digits = load_digits()
    lines = [(DenseVector(image.ravel() / 16), int(digit)) for image, digit in zip(digits.images, digits.target)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            reached = train(session.createDataFrame(lines, ["image", "digit"]), options, folder)
    finally:
        session.stop()
    print(f"accuracy {reached:.3f} after {options.epochs} epochs")


if __name__ == "__main__":
    main()
