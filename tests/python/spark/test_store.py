"""Stores, and parameters of estimators, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from horovod.spark.common import util
from horovod.spark.common.datamodule import ParquetDataModule
from horovod.spark.common.params import EstimatorParams, ModelParams
from horovod.spark.common.remote import Training
from horovod.spark.common.store import DBFSLocalStore, FilesystemStore, HDFSStore, LocalStore, Store
from pyspark.ml.linalg import DenseVector


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/here", LocalStore),
        ("file:///data/here", LocalStore),
        ("memory://here", FilesystemStore),
        ("s3://bucket/here", FilesystemStore),
        ("hdfs://name:9000/here", HDFSStore),
        ("dbfs:/here", DBFSLocalStore),
        ("file:///dbfs/here", DBFSLocalStore),
    ],
)
def test_a_path_chooses_the_store(path: str, kind: type) -> None:
    store = Store.create(path, save_runs=True)
    assert type(store) is kind
    assert store.get_train_data_path().endswith("here/intermediate_train_data")
    assert store.get_val_data_path(3).endswith("here/intermediate_val_data.3")
    assert store.get_test_data_path().endswith("here/intermediate_test_data")
    assert store.get_run_path("a").endswith("here/runs/a")
    assert store.get_logs_path("a").endswith("here/runs/a/logs")
    assert store.get_checkpoint_filename() == ("checkpoint.tf" if kind is DBFSLocalStore else "checkpoint")


def test_paths_that_are_given_and_runs_that_are_not_kept() -> None:
    store = Store.create("/data", train_path="/t", val_path="/v", runs_path="/r", save_runs=False)
    assert (store.get_train_data_path(), store.get_val_data_path(1)) == ("file:///t", "file:///v.1")
    assert (store.get_runs_path(), store.get_checkpoint_path("a"), store.get_logs_path("a")) == (
        "file:///r",
        None,
        None,
    )
    assert store.get_checkpoints("a") == []
    assert DBFSLocalStore("/dbfs/x").get_localized_path("dbfs:/y") == "/dbfs/y"
    with pytest.raises(ValueError, match="no path of DBFS"):
        DBFSLocalStore("/somewhere")
    with pytest.raises(ValueError, match="driver='libhdfs3'"):
        HDFSStore("hdfs:///x", driver="libhdfs3")
    assert HDFSStore("hdfs:///x", user="me", port=9000).storage_options == {"user": "me", "port": 9000}


@pytest.mark.parametrize("prefix", ["memory://store", "local"])
def test_files_of_runs(tmp_path: Path, prefix: str) -> None:
    store = Store.create(str(tmp_path / "store") if prefix == "local" else prefix)
    store.check_writable()
    store.write_text(store.get_run_path("a") + "/words", "some")
    assert store.read(store.get_run_path("a") + "/words") == b"some"
    assert not store.exists(store.get_run_path("b"))
    remote = cloudpickle.loads(cloudpickle.dumps(store)).to_remote("b", 2)
    assert remote.train_data_path == store.get_train_data_path(2)
    with remote.get_local_output_dir() as folder:
        for text in ("one", "two"):
            Path(folder, "logs").mkdir(exist_ok=True)
            Path(folder, "logs", "x").write_text(text)
            Path(folder, "c.ckpt").write_text(text)
            remote.sync(folder)
    assert store.read(store.get_logs_path("b") + "/x") == b"two"
    assert [name.rpartition("/")[2] for name in store.get_checkpoints("b")] == ["c.ckpt"]
    assert Path(folder).exists() == (prefix == "local")


def test_a_store_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"The store at .*file/below can't be written: "):
        Store.create(str(tmp_path / "file/below")).check_writable()


def test_a_file_system_that_fsspec_does_not_know() -> None:
    with pytest.raises(ValueError, match="strange"):
        Store.create("strange://bucket").exists("strange://bucket")


def test_parameters_have_horovods_accessors_and_defaults() -> None:
    params = EstimatorParams(feature_cols=["a"], label_cols=["b"], epochs=None, batch_size=7)
    assert (params.getBatchSize(), params.getEpochs(), params.getMetrics()) == (7, 1, [])
    assert params.setInMemoryCacheAll(True).getInMemoryCacheAll() is True
    assert params.setTrainReaderNumWorker(1).getTrainReaderNumWorker() == 1
    assert params.setShufflingBufferSize(5).getShufflingBufferSize() == 5
    assert params._columns() == ["a", "b"]
    with pytest.raises(TypeError, match="no parameter batchsize. It has: .*batch_size"):
        EstimatorParams(batchsize=1)
    model = ModelParams(label_columns=["a", "b"])
    assert model.getOutputCols() == ["a__output", "b__output"]
    assert model.setLabelColoumns(["c"]).getLabelColumns() == ["c"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": None}, "Model parameter"),
        ({"store": None}, "Store parameter"),
        ({"label_cols": []}, "label_cols"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step=0"),
        ({"num_proc": 0}, "num_proc=0"),
        ({"loss_weights": [0.5, 0.5]}, "2 loss_weights for 1 label"),
    ],
)
def test_parameters_that_can_not_be_met(changed: dict[str, Any], words: str) -> None:
    params = EstimatorParams(model=1, store=1, feature_cols=["x"], label_cols=["y"])
    params._check_params()
    with pytest.raises(ValueError, match=words):
        params._set(**changed)._check_params()


def test_validations_and_shapes_that_can_not_be_met() -> None:
    for validation in (1.5, -0.1, 3):
        with pytest.raises(ValueError, match="alidation"):
            util.check_validation(validation)
    metadata = {
        name: {"spark_data_type": DenseVector, "shape": size} for name, size in (("x", 6), ("y", 1), ("z", None))
    }
    util.check_shape_compatibility(metadata, ["x", "z"], ["y"], [[-1, 2, 3], [-1]], np.array([[-1, 1]]).tolist())
    with pytest.raises(ValueError, match="'x' with size 6 must equal that of the model input at index 0 with size 5"):
        util.check_shape_compatibility(metadata, ["x"], ["y"], [[-1, 5]])
    with pytest.raises(ValueError, match="'y' with size 1 must equal that of the label shape at index 0 with size 2"):
        util.check_shape_compatibility(metadata, ["x"], ["y"], None, [[-1, 1]], [[-1, 2]])
    with pytest.raises(ValueError, match="Feature column count 1 must equal model inputs count 2"):
        util.check_shape_compatibility(metadata, ["x"], ["y"], [[1], [1]])


class Doubled(ParquetDataModule):
    """Gives every batch twice."""

    def train_data(self) -> Any:
        for batch in super().train_data():
            yield batch
            yield batch


@pytest.mark.parametrize(("module", "expected"), [(None, [0, 1, 2, 3, 0]), (Doubled, [0, 0, 1, 1, 2])])
def test_what_a_rank_reads(tmp_path: Path, module: Any, expected: list[int]) -> None:
    store = Store.create(str(tmp_path / "store"))
    for folder, rows in ((store.get_train_data_path(1), 8), (store.get_val_data_path(1), 3)):
        Path(store.get_localized_path(folder)).mkdir(parents=True)
        pq.write_table(pa.table({"x": np.arange(rows)}), store.get_localized_path(folder) + "/a.parquet")
    assert store.is_parquet_dataset(store.get_train_data_path(1))
    assert not store.is_parquet_dataset(store.get_train_data_path())
    params = EstimatorParams(batch_size=1, val_batch_size=2, shuffle=False)
    options = {param.name: params.getOrDefault(param) for param in params.params}
    train, val = (
        store.get_parquet_dataset(path) for path in (store.get_train_data_path(1), store.get_val_data_path(1))
    )
    training = Training({**options, "data_module": module}, ["x"], store, store.to_remote("run", 1), train, val, 0)
    training = cloudpickle.loads(cloudpickle.dumps(training))
    assert training.steps(2) == (4, 1)
    with training.data(0, 2) as data:
        batches = data.train_data()
        assert [next(batches)["x"].item() for _ in range(5)] == expected
        assert next(data.val_data())["x"].tolist() == [0, 1]
    with training.data(1, 2) as data:
        assert next(data.val_data())["x"].tolist() == [1, 2]
    with pytest.raises(AttributeError, match="nothing"):
        _ = training.nothing
