"""Stores in S3, of which moto's server is here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from horovod.spark.common.store import FilesystemStore, Store
from horovod.spark.torch import TorchEstimator
from pyspark.sql import SparkSession

server = pytest.importorskip("moto.server")
pytest.importorskip("s3fs")
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 40


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """What reaches the server, also from other processes."""
    moto = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield {"key": "some", "secret": "other", "endpoint_url": f"http://{host}:{port}"}
    moto.stop()


def test_a_store_in_a_bucket(options: dict[str, Any], tmp_path: Path) -> None:
    store = Store.create("s3://files/below", storage_options=options)
    assert type(store) is FilesystemStore
    store.check_writable()
    assert not store.exists(store.get_runs_path())
    remote = cloudpickle.loads(cloudpickle.dumps(store)).to_remote("a")
    with remote.get_local_output_dir() as folder:
        for text in ("one", "two"):
            Path(folder, "c.ckpt").write_text(text)
            remote.sync(folder)
    assert store.get_checkpoints("a") == ["files/below/runs/a/c.ckpt"]
    assert store.read("s3://files/below/runs/a/c.ckpt") == b"two"
    assert not store.is_parquet_dataset(store.get_train_data_path())
    with pytest.raises(OSError, match=r"The store at s3://no bucket can't be written: (.|\n)*Invalid bucket name"):
        Store.create("s3://no bucket", storage_options=options).check_writable()


def test_an_estimator_over_a_bucket(context: Any, options: dict[str, Any]) -> None:
    numbers = np.random.default_rng(1).normal(size=(ROWS, 2))
    lines = [([float(a), float(b)], float(a - 2 * b)) for a, b in numbers]
    rows = SparkSession(context).createDataFrame(lines, "both array<double>, y double").repartition(3)
    store = Store.create("s3://training/here", storage_options=options)
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 1)
    estimator = TorchEstimator(
        num_proc=2, model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), loss=torch.nn.MSELoss(),
        store=store, feature_cols=["both"], label_cols=["y"], validation=0.3, random_seed=3, batch_size=4, epochs=2,
        verbose=0, run_id="first",
    )  # fmt: skip
    for _ in range(2):  # the second time other data are there, which a new DataFrame replaces, and a checkpoint
        trained = estimator.fit(rows.select("*"))
        datasets = [store.get_parquet_dataset(path(0)) for path in (store.get_train_data_path, store.get_val_data_path)]
        assert sum(dataset.rows for dataset in datasets) == ROWS
        history = trained.getHistory()
        assert [entry["epoch"] for entry in history] == [0, 1]
        assert history[-1]["validation"]["loss"] > 0
    assert store.exists(f"{store.get_checkpoint_path('first')}/{store.get_checkpoint_filename()}")
    predicted = trained.transform(rows).collect()
    assert np.mean([(row["y"] - row["y__output"]) ** 2 for row in predicted]) < 0.1
    with pytest.raises(ValueError, match="No rows found for s3://training/here/intermediate_train_data"):
        estimator.fit(rows.filter("y > 1000"))
