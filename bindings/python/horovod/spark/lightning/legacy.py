"""A plain module with its optimizer and losses, as a module of Lightning."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from horovod.common.util import lightning_package
from horovod.spark.torch.remote import Losses, matched

_lightning: Any = importlib.import_module(lightning_package())


class WrappedModule(_lightning.LightningModule):
    """Trains `wrapped`, which is a ``torch.nn.Module``."""

    def __init__(self, wrapped: Any, optimizer: Any, losses: Losses, columns: dict[str, Any]) -> None:
        super().__init__()
        self.wrapped, self._given, self._losses, self._columns = wrapped, optimizer, losses, columns
        losses.construct(wrapped)

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs."""
        return self.wrapped(*inputs)

    def configure_optimizers(self) -> Any:
        """Return the optimizer that was given."""
        return self._given

    def training_step(self, batch: dict[str, Any], index: int) -> Any:
        """Return the loss, and log it as `loss`."""
        return self._step(batch, index, "loss")

    def validation_step(self, batch: dict[str, Any], index: int) -> Any:
        """Return the loss, and log it as `val_loss`."""
        return self._step(batch, index, "val_loss")

    def _step(self, batch: dict[str, Any], index: int, name: str) -> Any:
        del index
        outputs = self(*[batch[column].float() for column in self._columns["features"]])
        outputs, labels = matched(outputs, [batch[column].float() for column in self._columns["labels"]])
        weight = self._columns["weight"]
        loss = self._losses(outputs, labels, batch[weight].float().reshape(-1) if weight else None)
        self.log(name, loss, on_epoch=True, on_step=False, sync_dist=True, batch_size=len(labels[0]))
        return loss


def to_lightning_module(
    model: Any,
    optimizer: Any,
    loss_fns: Any,
    loss_weights: Sequence[float] | None,
    feature_cols: Sequence[str],
    label_cols: Sequence[str],
    sample_weights_col: str | None = None,
    loss_constructors: Any = None,
) -> WrappedModule:
    """Return a Lightning module that trains a module with an optimizer and losses, as ``TorchEstimator`` takes them."""
    columns = {"features": list(feature_cols), "labels": list(label_cols), "weight": sample_weights_col}
    return WrappedModule(model, optimizer, Losses(loss_fns, loss_constructors, loss_weights, len(label_cols)), columns)
