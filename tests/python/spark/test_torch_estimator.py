"""``TorchEstimator`` on a cluster of two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from horovod.runner.job import JobFailedError
from horovod.spark.common import util
from horovod.spark.common.backend import SparkBackend
from horovod.spark.common.store import Store
from horovod.spark.torch import TorchEstimator, TorchModel
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import DenseVector, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 203
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def rows(context: Any) -> Any:
    """What a linear model can learn: y = a - 2 b, and which of three is the largest."""
    numbers = np.random.default_rng(1).normal(size=(ROWS, 3))
    lines = [
        (float(a), float(b), DenseVector([a, b, c]), float(a - 2 * b), int(np.argmax([a, b, c])), 1.0, index % 4 == 0)
        for index, (a, b, c) in enumerate(numbers)
    ]
    names = ["a", "b", "all", "y", "largest", "weight", "held"]
    return SparkSession(context).createDataFrame(lines, names).repartition(3)


class Two(torch.nn.Module):
    """Two inputs and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.sorts = torch.nn.Linear(2, 1), torch.nn.Linear(3, 3)

    def forward(self, a: torch.Tensor, b: torch.Tensor, everything: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.line(torch.cat([a, b], 1)), self.sorts(everything)


def square(output: torch.Tensor, label: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return torch.nn.functional.mse_loss(output, label, reduction=reduction)


def crossed(output: torch.Tensor, label: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return torch.nn.functional.cross_entropy(output, label.long().reshape(-1), reduction=reduction)


def right(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == label.reshape(-1)).float().mean() if output.shape[1] > 1 else torch.zeros(())


def test_two_labels_weights_metrics_validation_and_the_pipeline(rows: Any, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Two()
    groups = [{"params": model.line.parameters()}, {"params": model.sorts.parameters(), "lr": 0.04}]
    optimizer = torch.optim.Adam(groups, lr=0.05)
    store = Store.create(str(tmp_path / "store"))
    estimator = TorchEstimator(
        num_proc=2,
        model=model,
        optimizer=optimizer,
        store=store,
        loss=[square, crossed],
        loss_weights=[0.7, 0.3],
        sample_weight_col="weight",
        metrics=[[right]],
        feature_cols=["a", "b", "all2"],
        label_cols=["y", "largest"],
        validation="held",
        batch_size=16,
        epochs=12,
        verbose=0,
        random_seed=4,
        run_id="first",
    )
    # A column that a stage before makes, and one model for both.
    pipeline = Pipeline(stages=[VectorAssembler(inputCols=["all"], outputCol="all2"), estimator])
    fitted = pipeline.fit(rows)
    trained = fitted.stages[-1]
    history = trained.getHistory()
    assert [entry["epoch"] for entry in history] == list(range(12))
    assert history[-1]["validation"]["loss"] < 0.3 * history[0]["train"]["loss"]
    assert history[-1]["validation"]["all_metrics"][0]["group_0_largest"] > 0.8
    assert [group["lr"] for group in trained.getOptimizer().param_groups] == [0.05, 0.04]  # as for one rank
    assert not torch.equal(model.line.weight, trained.getModel().line.weight)

    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    pipeline.write().overwrite().save(str(tmp_path / "unfitted"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert isinstance(loaded.stages[-1], TorchModel)
    predicted = loaded.transform(rows)
    kinds = {field.name: type(field.dataType) for field in predicted.schema.fields}
    assert (kinds["y__output"], kinds["largest__output"]) == (DoubleType, VectorUDT)
    lines = predicted.collect()
    assert len(lines) == ROWS
    assert np.mean([(line["y"] - line["y__output"]) ** 2 for line in lines]) < 0.1
    assert np.mean([np.argmax(line["largest__output"]) == line["largest"] for line in lines]) > 0.8

    again = Pipeline.load(str(tmp_path / "unfitted")).getStages()[-1].setStore(store).setEpochs(1)
    own = {id(parameter) for parameter in again.getModel().parameters()}
    assert {id(parameter) for group in again.getOptimizer().param_groups for parameter in group["params"]} == own
    resumed = again.fit(loaded.stages[0].transform(rows))
    assert resumed.getHistory()[0]["train"]["loss"] < 2 * history[-1]["train"]["loss"]


def plain(store: Any, **changed: Any) -> TorchEstimator:
    model = torch.nn.Linear(2, 1)
    options: dict[str, Any] = {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1), "loss": torch.nn.MSELoss(),
        "store": store, "feature_cols": ["both"], "label_cols": ["y"], "verbose": 0, "num_proc": 2,
    }  # fmt: skip
    return TorchEstimator(**{**options, **changed})


class Named(TorchModel):
    """A model of a subclass, which wants to know more than ours, and predicts in its own way."""

    def __init__(self, origin: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.origin = origin

    def get_prediction_fn(self) -> Any:
        plainly, origin = super().get_prediction_fn(), self.origin
        return lambda model, row: plainly(model, row) + (1000 if origin == "here" and row["held"] else 0)


class Naming(TorchEstimator):
    def get_model_class(self) -> type[TorchModel]:
        return Named

    def _get_model_kwargs(self, model: Any, history: Any, optimizer: Any, run_id: str, metadata: Any) -> Any:
        return {**super()._get_model_kwargs(model, history, optimizer, run_id, metadata), "origin": "here"}


def test_subclasses_and_shapes_of_one_row(rows: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 1)
    estimator = Naming(
        model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), loss=torch.nn.MSELoss(), verbose=0, num_proc=2,
        store=Store.create(str(tmp_path / "store")), feature_cols=["all"], label_cols=["y"], input_shapes=[[3]],
    )  # fmt: skip
    trained = estimator.fit(rows)
    assert (type(trained), trained.origin) == (Named, "here")
    lines = trained.transform(rows).collect()
    assert len(lines) == ROWS
    assert all((line["y__output"] > 500) == line["held"] for line in lines)

    class Whole(torch.nn.Module):
        """Takes one row at a time, and knows that by its number of dimensions."""

        def forward(self, row: torch.Tensor) -> torch.Tensor:
            return row.sum().reshape(1) + 10 * row.dim()

    metadata = {"y": {"spark_data_type": DoubleType, "shape": 1}}
    for shape, dimensions in (([3], 1), ([1, 3], 2)):
        whole = TorchModel(
            model=Whole(), input_shapes=[shape], feature_columns=["all"], label_columns=["y"], _metadata=metadata
        )
        for line in whole.transform(rows).collect():
            assert line["y__output"] == pytest.approx(line["all"].toArray().sum() + 10 * dimensions, abs=1e-4)


def pair(row: dict[str, Any]) -> dict[str, Any]:
    return {"both": np.array([row["a"], row["b"]], np.float32), "y": row["y"], "weight": row["weight"]}


def my_minibatch(
    model: Any, optimizer: Any, transform: Any, loss_fn: Any, inputs: Any, labels: Any, weights: Any
) -> Any:
    optimizer.zero_grad()
    outputs, labels = transform(model(*inputs), labels)
    loss = loss_fn(outputs, labels, weights)
    loss.backward()
    optimizer.step()
    return outputs, loss


def test_parquet_that_is_there_transformations_and_a_custom_step(rows: Any, tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"))
    rows.select("a", "b", "y", "weight").coalesce(1).write.parquet(store.get_train_data_path())
    estimator = plain(
        store,
        feature_cols=["a", "b"],
        model=torch.nn.Bilinear(1, 1, 1),
        train_minibatch_fn=my_minibatch,
        sample_weight_col="weight",
        inmemory_cache_all=True,
        train_steps_per_epoch=3,
        random_seed=1,
        epochs=2,
        num_proc=None,
        backend=SparkBackend(2, verbose=0),
        transformation_fn=lambda row: {**row, "a": row["a"] * 0, "weight": 1.0},
    )
    estimator.setOptimizer(torch.optim.SGD(estimator.getModel().parameters(), 0.1))
    start = estimator.getModel().weight.item()
    trained = estimator.fit_on_parquet()
    assert len(trained.getHistory()) == 2
    assert trained.getModel().weight.item() == start  # a is 0 in all rows
    with pytest.raises(ValueError, match=r"has no column gone. It has: a, b, y, weight"):
        plain(store, feature_cols=["gone"]).fit_on_parquet()
    with pytest.raises(ValueError, match="no Parquet files in .*intermediate_train_data.7"):
        estimator.fit_on_parquet(dataset_idx=7)


def test_dataframes_are_written_once(rows: Any, tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"))
    columns = {"label_columns": ["y"], "feature_columns": ["a", "all"]}
    with util.prepare_data(2, store, rows, **columns) as first, util.prepare_data(2, store, rows, **columns) as same:
        assert first == same == 0
        with util.prepare_data(2, store, rows, validation=0.2, **columns) as other:
            assert other == 1
            train, val = store.get_train_data_path(1), store.get_val_data_path(1)
            counts = [store.get_parquet_dataset(path).rows for path in (train, val)]
            assert sum(counts) == ROWS
            assert 10 < counts[1] < 90
    metadata = util.get_metadata(store.fs, store.get_parquet_dataset(store.get_train_data_path(0)), ["all", "y"])
    assert metadata["all"] == {"spark_data_type": DenseVector, "shape": 3}
    assert metadata["y"] == {"spark_data_type": DoubleType, "shape": 1}


def test_what_can_not_be_trained(rows: Any, tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"))
    with pytest.raises(ValueError, match="Feature column both does not exist in the DataFrame, which has: a, b, all"):
        plain(store).fit(rows)
    with pytest.raises(ValueError, match=r"No rows found in .*intermediate_train_data"):
        plain(store, feature_cols=["a"]).fit(rows.filter("a > 100"))
    with pytest.raises(ValueError, match="'all' with size 3 must equal that of the model input at index 0 with size 2"):
        plain(store, feature_cols=["all"], input_shapes=[[-1, 2]]).fit(rows)
    with pytest.raises(ValueError, match="backend.*num_proc"):
        plain(store, feature_cols=["a"], backend=SparkBackend(2)).fit(rows)
    with pytest.raises(ValueError, match="only one of loss_constructors and loss"):
        plain(store, loss_constructors=[lambda **_: square])
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="can't be written"):
        plain(Store.create(str(tmp_path / "file/x")), feature_cols=["a"]).fit(rows)
    with pytest.raises(JobFailedError, match="mat1 and mat2 shapes cannot be multiplied"):
        plain(store, feature_cols=["all"]).fit(rows)


def test_the_example_learns(context: Any) -> None:
    command = [sys.executable, str(EXAMPLES / "spark_estimator.py"), "--master", "local[2]", "--epochs", "5"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1].split()[1]) > 0.85, done.stdout
