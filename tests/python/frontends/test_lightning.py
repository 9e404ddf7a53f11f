"""Lightning's Trainer over the engine, beside one process that trains on all data."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import horovod.torch as hvd
import pytest
import torch
from horovod.common import stragglers
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

lightning = pytest.importorskip("lightning")
DDPStrategy = lightning.pytorch.strategies.DDPStrategy
CSVLogger = lightning.pytorch.loggers.CSVLogger
HorovodStrategy = pytest.importorskip("horovod.torch.lightning").HorovodStrategy
StragglerCallback = pytest.importorskip("horovod.torch.lightning").StragglerCallback

BATCHES, ROWS = 5, 4  # of each rank


class Model(lightning.LightningModule):
    """Two layers; keeps the learning rates of its steps."""

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(hvd.rank())  # the ranks begin with different weights
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.rate = rate
        self.rates: list[float] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layers(x), y)
        self.log("loss", loss, sync_dist=True)
        self.log("rank", float(hvd.rank()), sync_dist=True, reduce_fx="sum")
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.rates.append(optimizer.param_groups[0]["lr"])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), self.rate)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class ManualModel(Model):
    """Steps by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, number: int) -> None:
        loss = super().training_step(batch, number)
        self.optimizers().zero_grad()
        self.manual_backward(loss)
        self.optimizers().step()


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(BATCHES * ROWS * hvd.size(), 3, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def own_batches() -> DataLoader:
    return DataLoader(data(), ROWS, sampler=DistributedSampler(data(), hvd.size(), hvd.rank(), shuffle=False))


def fitted(model: Model, strategy: Any, **options: Any) -> lightning.Trainer:
    options = {
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": False,
        "use_distributed_sampler": False,
        **options,
    }
    trainer = lightning.Trainer(
        accelerator="cpu", strategy=strategy, enable_progress_bar=False, enable_model_summary=False, **options
    )
    trainer.fit(model, own_batches())
    return trainer


def trained_alone(epochs: int = 2, accumulate: int = 1, clip: float | None = None) -> list[torch.Tensor]:
    """Return what one process makes of the batches of all ranks together."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1 * hvd.size())
    x, y = data().tensors
    places = torch.arange(len(x)).view(-1, hvd.size()).T.reshape(hvd.size(), BATCHES, ROWS)  # as the sampler shares out
    for _ in range(epochs):
        for number in range(BATCHES):
            rows = places[:, number].flatten()
            (torch.nn.functional.mse_loss(model(x[rows]), y[rows]) / accumulate).backward()
            if (number + 1) % accumulate and number + 1 < BATCHES:
                continue
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] /= 2
    return list(model.parameters())


def assert_same(model: Model, expected: list[torch.Tensor]) -> None:
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(model.parameters(), expected))


@pytest.mark.parametrize("options", [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 0.05}], ids=str)
def test_training_equals_one_process(options: dict[str, Any]) -> None:
    model = Model()
    trainer = fitted(model, "horovod", **options)
    assert (trainer.world_size, trainer.global_rank, trainer.is_global_zero) == (
        hvd.size(),
        hvd.rank(),
        hvd.rank() == 0,
    )
    assert trainer.distributed_sampler_kwargs == {"num_replicas": hvd.size(), "rank": hvd.rank()}
    assert float(trainer.callback_metrics["rank"]) == sum(range(hvd.size()))
    steps = BATCHES if "accumulate_grad_batches" not in options else (BATCHES + 1) // 2
    assert model.rates == [0.1 * hvd.size()] * steps + [0.05 * hvd.size()] * steps
    assert_same(model, trained_alone(2, options.get("accumulate_grad_batches", 1), options.get("gradient_clip_val")))


def test_loggers_are_told_of_a_straggler(tmp_path: Path) -> None:
    callback = StragglerCallback()
    stragglers._told[-1](stragglers.Straggler(1, "b", 50, 50, 0.2, 0.04, None, "its cgroup is throttled"))
    logger = CSVLogger(str(tmp_path), version=hvd.rank())
    fitted(Model(), "horovod", logger=logger, callbacks=[callback])
    if hvd.rank() == 0:  # the one whose logger writes
        rows = csv.DictReader(Path(logger.log_dir, "metrics.csv").read_text().splitlines())
        told = [(float(row["straggler"]), float(row["straggler_ms"])) for row in rows if row.get("straggler")]
        assert told == [(1.0, 40.0), (-1.0, 0.0)]


def test_steps_by_hand_and_options_of_the_optimizer() -> None:
    model = ManualModel()
    strategy = HorovodStrategy(compression=hvd.Compression.none, op=hvd.Average)
    fitted(model, strategy, max_epochs=1)
    assert_same(model, trained_alone(1))
    unscaled = Model(rate=0.1 * hvd.size())
    fitted(unscaled, HorovodStrategy(scale_learning_rate=False), max_epochs=1)
    assert_same(unscaled, trained_alone(1))


@pytest.mark.parametrize("options", [{"op": hvd.Adasum}, {"sharded": True}], ids=str)
def test_optimizers_of_other_kinds(options: dict[str, Any]) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two of ranks")
    model = Model()
    fitted(model, HorovodStrategy(**options))
    everybody = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert all(others == everybody[0] for others in everybody)
    if "sharded" in options:
        assert_same(model, trained_alone())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="clip_grad_norm_"):
        fitted(Model(), HorovodStrategy(sharded=True), gradient_clip_val=1.0)


def test_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    folder = Path(hvd.broadcast_object(str(tmp_path)))
    trainer = fitted(Model(), "horovod", max_epochs=1, enable_checkpointing=True, default_root_dir=folder)
    trainer.save_checkpoint(folder / "first.ckpt")
    model = Model()
    second = lightning.Trainer(
        accelerator="cpu",
        strategy="horovod",
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    second.fit(model, own_batches(), ckpt_path=folder / "first.ckpt")
    assert_same(model, trained_alone(2))


def test_data_parallel_strategy_over_the_engine() -> None:
    model = Model(rate=0.1 * hvd.size())
    trainer = fitted(model, DDPStrategy(process_group_backend="roda"), devices=hvd.size())
    assert torch.distributed.get_backend() == "roda"
    assert trainer.world_size == hvd.size()
    assert_same(model, trained_alone())
