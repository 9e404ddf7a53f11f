"""Lightning's ``TorchEstimator`` on a cluster of two workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from horovod.spark.common.store import Store
from pyspark.ml import PipelineModel
from pyspark.ml.linalg import DenseVector
from pyspark.sql import SparkSession

lightning = pytest.importorskip("lightning")
pl = lightning.pytorch
estimators = pytest.importorskip("horovod.spark.lightning")
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Line(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self(batch["x"]), batch["total"])
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch: dict[str, torch.Tensor], _: int) -> None:
        self.log("val_loss", torch.nn.functional.mse_loss(self(batch["x"]), batch["total"]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.05)


class Rates(pl.Callback):
    """Writes down each epoch's learning rate."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        if trainer.is_global_zero:
            with open(self.path, "a") as file:
                file.write(f"{trainer.current_epoch} {trainer.optimizers[0].param_groups[0]['lr']:.3f}\n")


def test_fits_that_go_on_and_a_module_that_is_not_lightnings(context: Any, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=(120, 4))
    lines = [(DenseVector(line), float(line.sum())) for line in numbers]
    rows = SparkSession(context).createDataFrame(lines, ["x", "total"]).repartition(2)
    store = Store.create(str(tmp_path / "store"))
    torch.manual_seed(1)
    options: dict[str, Any] = {
        "num_proc": 2, "store": store, "feature_cols": ["x"], "label_cols": ["total"], "input_shapes": [[-1, 4]],
        "label_shapes": [[-1, 1]], "batch_size": 8, "verbose": 0, "random_seed": 1, "run_id": "run",
    }  # fmt: skip
    estimator = estimators.TorchEstimator(
        model=Line(), validation=0.2, epochs=5, callbacks=[Rates(tmp_path / "rates")], **options
    )
    trained = estimator.fit(rows)
    history = trained.getHistory()
    assert len(history) == 5
    assert history[-1]["val_loss"] < 0.3 * history[0]["loss"]
    assert [Path(name).name for name in store.get_checkpoints("run")] == ["checkpoint.ckpt"]
    again = estimator.copy({estimator.epochs: 1}).fit(rows)
    assert again.getHistory()[0]["loss"] < 0.3 * history[0]["loss"]
    assert (tmp_path / "rates").read_text().splitlines() == [f"{epoch} 0.100" for epoch in range(6)]

    PipelineModel([again]).write().save(str(tmp_path / "pipeline"))
    predicted = PipelineModel.load(str(tmp_path / "pipeline")).transform(rows).collect()
    assert np.mean([(line["total"] - line["total__output"]) ** 2 for line in predicted]) < 0.5

    class Hundredfold(estimators.TorchModel):
        def get_prediction_fn(self) -> Any:
            plainly = super().get_prediction_fn()
            return lambda model, row: 100 * plainly(model, row)

    names = {"feature_columns": ["x"], "label_columns": ["total"], "_metadata": again._get_metadata()}
    larger = Hundredfold(model=again.getModel(), input_shapes=[[-1, 4]], **names).transform(rows).collect()
    expected = {tuple(line["x"]): 100 * line["total__output"] for line in predicted}
    assert {tuple(line["x"]): line["total__output"] for line in larger} == pytest.approx(expected, rel=1e-4)

    plain = torch.nn.Linear(4, 1)
    wrapped = estimators.TorchEstimator(
        model=plain, optimizer=torch.optim.SGD(plain.parameters(), 0.05), loss=torch.nn.MSELoss(), epochs=2,
        **{**options, "run_id": "plain"},
    )  # fmt: skip
    history = wrapped.fit(rows).getHistory()
    assert history[1]["loss"] < history[0]["loss"]
    with pytest.raises(ValueError, match="A LightningModule has its optimizer and loss itself: leave out loss"):
        estimator.copy({estimator.loss: torch.nn.MSELoss()}).fit(rows)
    with pytest.raises(ValueError, match="needs the parameters optimizer and loss"):
        estimator.copy({estimator.model: plain}).fit(rows)


WITH_PYTORCH_LIGHTNING = """
import sys
sys.modules["lightning"] = None  # as where it is not installed

class Hide:
    def find_spec(self, name, *_):
        if name == "lightning":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hide())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "lightning" else found(name, *more)
import torch
from horovod.spark.lightning import TorchEstimator
from horovod.spark.lightning.legacy import to_lightning_module
from horovod.torch.lightning import HorovodStrategy
import pytorch_lightning

line = torch.nn.Linear(1, 1)
module = to_lightning_module(line, torch.optim.SGD(line.parameters(), 0.1), torch.nn.MSELoss(), None, ["x"], ["y"])
assert isinstance(module, pytorch_lightning.LightningModule)
assert issubclass(HorovodStrategy, pytorch_lightning.strategies.DDPStrategy)
"""


def test_pytorch_lightning_will_do() -> None:
    pytest.importorskip("pytorch_lightning")
    command = [sys.executable, "-c", WITH_PYTORCH_LIGHTNING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
