"""``KerasEstimator`` on a cluster of two workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from horovod.runner.job import JobFailedError
from horovod.spark.common.store import Store
from pyspark.ml import PipelineModel
from pyspark.ml.linalg import DenseVector, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType

keras = pytest.importorskip("keras")
KerasEstimator = pytest.importorskip("horovod.spark.keras").KerasEstimator
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 150


@pytest.fixture(scope="module")
def rows(context: Any) -> Any:
    numbers = np.random.default_rng(1).normal(size=(ROWS, 4))
    lines = [
        (DenseVector(line), float(line.sum()), int(line.argmax()), 1.0, index % 5 == 0)
        for index, line in enumerate(numbers)
    ]
    return SparkSession(context).createDataFrame(lines, ["x", "total", "largest", "weight", "held"]).repartition(2)


def squared(true: Any, predicted: Any) -> Any:
    return keras.ops.mean(keras.ops.square(true - predicted), -1)


class Remember(keras.callbacks.Callback):
    """Fails when the ranks' rates are not scaled, and writes down who calls it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        with open(self.path, "a") as file:
            file.write(f"{epoch} {rate:.3f} {'val_loss' in logs}\n")


def build() -> Any:
    keras.utils.set_random_seed(1)
    x = keras.Input((4,))
    return keras.Model(
        x, [keras.layers.Dense(1, name="sum")(x), keras.layers.Dense(4, activation="softmax", name="which")(x)]
    )


def test_two_labels_a_custom_loss_callbacks_a_resumed_run_and_the_pipeline(rows: Any, tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"))
    estimator = KerasEstimator(
        num_proc=2,
        model=build(),
        optimizer=keras.optimizers.Adam(0.03),
        loss=[squared, "sparse_categorical_crossentropy"],
        loss_weights=[0.5, 0.5],
        metrics=[["mae"], ["accuracy"]],
        sample_weight_col="weight",
        store=store,
        feature_cols=["x"],
        label_cols=["total", "largest"],
        label_shapes=[[-1, 1], [-1]],
        validation="held",
        callbacks=[Remember(tmp_path / "seen")],
        batch_size=12,
        epochs=10,
        verbose=0,
        random_seed=2,
        run_id="run",
    )
    trained = estimator.fit(rows)
    history = trained.getHistory()
    assert len(history["val_loss"]) == 10
    assert history["val_loss"][-1] < 0.4 * history["loss"][0]
    assert sorted((tmp_path / "seen").read_text().splitlines())[:2] == ["0 0.060 True"] * 2
    assert float(keras.ops.convert_to_numpy(trained.getModel().optimizer.learning_rate)) == pytest.approx(0.03)
    assert (tmp_path / "store/runs/run/checkpoint.keras").exists()

    PipelineModel([trained]).write().save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert type(loaded.stages[0]) is type(trained)
    predicted = loaded.transform(rows)
    kinds = {field.name: type(field.dataType) for field in predicted.schema.fields}
    assert (kinds["total__output"], kinds["largest__output"]) == (DoubleType, VectorUDT)
    lines = predicted.collect()
    assert np.mean([(line["total"] - line["total__output"]) ** 2 for line in lines]) < 1
    assert np.mean([np.argmax(line["largest__output"]) == line["largest"] for line in lines]) > 0.6

    estimator.write().save(str(tmp_path / "estimator"))
    again = KerasEstimator.load(str(tmp_path / "estimator")).setStore(store).setEpochs(1).setCallbacks([])
    assert again.fit(rows).getHistory()["loss"][0] < 1.5 * history["loss"][-1]


def test_what_can_not_be_trained(rows: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "model": build(), "optimizer": "sgd", "store": Store.create(str(tmp_path / "store")), "feature_cols": ["x"],
        "label_cols": ["total", "largest"], "loss": "mse", "num_proc": 2, "verbose": 0,
    }  # fmt: skip
    with pytest.raises(ValueError, match="instance of keras.Model, of Keras 3, and is a int"):
        KerasEstimator(**{**options, "model": 1}).fit(rows)
    with pytest.raises(ValueError, match="Optimizer must be provided"):
        KerasEstimator(**{**options, "optimizer": None}).fit(rows)
    with pytest.raises(
        ValueError, match="'largest' with size 1 must equal that of the model output at index 1 with size 4"
    ):
        KerasEstimator(**options).fit(rows)
    with pytest.raises(JobFailedError, match="nosuchmetric"):
        KerasEstimator(**options, label_shapes=[[-1, 1], [-1]], metrics=["nosuchmetric"]).fit(rows)
