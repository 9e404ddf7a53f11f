"""As the scripts on Spark: a function in every task, then an estimator that fits a data frame, and what it predicts."""

from __future__ import annotations

import tempfile

import horovod.spark
import horovod.torch as hvd
import torch
from horovod.spark.common.backend import SparkBackend
from horovod.spark.common.store import LocalStore
from horovod.spark.torch import TorchEstimator
from pyspark.sql import SparkSession


def gather(value: int) -> list[int]:
    import horovod.torch as hvd

    hvd.init()
    return hvd.allgather_object(value + hvd.rank())


spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
print("gathered", horovod.spark.run(gather, args=(5,), num_proc=2, verbose=0))
df = spark.createDataFrame([(i / 64, 1 - i / 64, i / 32 - 1) for i in range(64)], ["a", "b", "y"]).repartition(2)
model = torch.nn.Linear(2, 1)
with tempfile.TemporaryDirectory() as folder:
    estimator = TorchEstimator(
        backend=SparkBackend(num_proc=2, verbose=0),
        store=LocalStore(folder),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda output, target: torch.nn.functional.mse_loss(output.flatten(), target.flatten()),
        input_shapes=[[-1, 2]],
        feature_cols=["both"],
        label_cols=["y"],
        batch_size=8,
        epochs=6,
        validation=0.25,
        random_seed=1,
        verbose=0,
    )
    both = df.selectExpr("array(a, b) as both", "y")
    torch_model = estimator.fit(both).setOutputCols(["guess"])
    history = torch_model.getHistory()
    rows = torch_model.transform(both).select("y", "guess").collect()
print("rows", len(rows), "near", sum((row.y - row.guess) ** 2 for row in rows) / len(rows) < 0.1)
print("better", history[-1]["train"]["loss"] < history[0]["train"]["loss"], hvd.is_initialized())
spark.stop()
