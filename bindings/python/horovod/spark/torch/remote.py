"""The work of each rank of a ``TorchEstimator``."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np
import torch

from horovod.spark.common.remote import Training, shaped
from horovod.spark.common.util import to_list


def bind(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return them, the optimizer with the model's parameters; ValueError where it was made for another model."""
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"]):
        parameters = list(model.parameters())
        ours = type(optimizer)(parameters, lr=1.0)
        try:
            ours.load_state_dict(optimizer.state_dict())
        except ValueError as error:
            raise ValueError(f"The optimizer is not one of the model's parameters: {error}") from error
        return model, ours
    return model, optimizer


def load_state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take up a checkpoint."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def saved(state: Any) -> bytes:
    """Return what torch.save writes."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def loaded(data: bytes) -> Any:
    """Return what was :func:`saved`, by a run of the user's own: it is unpickled."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)


def tensors(rows: dict[str, Any]) -> dict[str, Any]:
    """Return columns of numbers as tensors, doubles as floats; others as they are."""
    found = {}
    for name, values in rows.items():
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            values = torch.from_numpy(np.ascontiguousarray(values))
            values = values.float() if values.dtype == torch.float64 else values
        found[name] = values
    return found


class Losses:
    """The loss of all outputs together.

    Parameters
    ----------
    losses : callable or list of callables
        One for all labels, or one for each.
    constructors
        What returns them, called with ``model=``, in place of `losses`.
    weights : list of float, optional
        Of the labels; by default each counts the same, and all together 1.
    count : int
        Number of labels.
    """

    def __init__(self, losses: Any, constructors: Any, weights: Sequence[float] | None, count: int) -> None:
        self._losses = to_list(losses, count) if losses is not None else []
        self._constructors = to_list(constructors, count) if losses is None else []
        self._weights = list(weights or [1.0 / count] * count)

    def construct(self, model: torch.nn.Module) -> None:
        """Make the losses that are to be made."""
        self._losses = self._losses or [constructor(model=model) for constructor in self._constructors]

    def __call__(self, outputs: Any, labels: Any, sample_weights: Any = None) -> torch.Tensor:
        """Return the weighted sum, over the mean of the rows."""
        total = torch.zeros(())
        for output, label, loss, weight in zip(outputs, labels, self._losses, self._weights):
            if sample_weights is None:
                value = loss(output, label)
            else:
                value = (_by_row(loss, output, label).flatten(1).mean(1) * sample_weights).mean()
            total = total.to(value.device) + value * weight
        return total


def _by_row(loss: Any, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    if not isinstance(loss, torch.nn.Module):
        values = loss(output, label, reduction="none")
    else:
        loss = copy.copy(loss)
        loss.reduction = "none"
        values = loss(output, label)
    return values.reshape(len(output), -1)


def train(training: Training, pickled: bytes, losses: Losses, input_shapes: Any) -> tuple[list[Any], bytes]:
    """Train in one rank; return what was measured, and on rank 0 the state of model and optimizer."""
    import horovod.torch as hvd

    training.prepare_process()
    hvd.init()
    torch.manual_seed(training.seed + hvd.rank())
    device = torch.device("cpu")
    if training.use_gpu and torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
        torch.cuda.set_device(device)
    model, optimizer = cloudpickle.loads(pickled)
    model.to(device)
    optimizer.load_state_dict(optimizer.state_dict())  # its state goes to where the parameters are
    return _Rank(hvd, training, model, optimizer, losses, input_shapes, device).run()


class _Rank:
    def __init__(
        self, hvd: Any, training: Training, model: Any, optimizer: Any, losses: Losses, input_shapes: Any, device: Any
    ) -> None:
        self._hvd, self._training, self._model = hvd, training, model
        self._device, self._losses, self._shapes = device, losses, input_shapes
        losses.construct(model)
        for group in optimizer.param_groups:
            group["lr"] *= hvd.size()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        compression = training.gradient_compression or hvd.Compression.none
        self._passes = training.backward_passes_per_step
        self._optimizer = hvd.DistributedOptimizer(
            optimizer, model.named_parameters(), compression, backward_passes_per_step=self._passes
        )
        self._custom = training.train_minibatch_fn
        self._pass = 0

    def run(self) -> tuple[list[Any], bytes]:
        training, hvd = self._training, self._hvd
        steps, val_steps = training.steps(hvd.size())
        is_first, history, state = hvd.rank() == 0, [], b""
        store = training.remote_store
        folder: Any = store.get_local_output_dir() if is_first else contextlib.nullcontext()
        with training.data(hvd.rank(), hvd.size()) as data, folder as output:
            log = _log(os.path.join(output, store.logs_subdir)) if is_first and store.saving_runs else None
            batches = data.train_data()
            val_batches = data.val_data() if training.val is not None else iter(())
            for epoch in range(training.epochs):
                self._model.train()
                measured = {"epoch": epoch, "train": self._measure(batches, steps, self._train_on)}
                if training.val is not None:
                    self._model.eval()
                    with torch.no_grad():
                        measured["validation"] = self._measure(val_batches, val_steps, self._validate_on)
                history.append(measured)
                if is_first:
                    if training.verbose:
                        print(measured, flush=True)
                    state = self._state()
                    if store.saving_runs:
                        _write(log, measured)
                        _replace(os.path.join(output, store.checkpoint_filename), state)
                        store.sync(output)
        return history, state

    def _measure(self, batches: Iterator[Any], steps: int, use: Any) -> dict[str, Any]:
        """Use so many batches; return the means over all ranks' rows."""
        groups, labels = self._training.metrics, self._training.label_cols
        functions = [to_list(group, len(labels), "a group of metrics") for group in _groups(groups)]
        sums, rows = np.zeros(2 + sum(map(len, functions))), 0
        for batch in itertools.islice(batches, steps):
            inputs, targets, weights = self._prepared(batch)
            outputs, loss = use(inputs, targets, weights)
            outputs, targets = matched(outputs, targets)
            rows = len(targets[0])
            values = [function(output, target) for group in functions
                      for function, output, target in zip(group, outputs, targets)]  # fmt: skip
            sums += rows * np.array([1.0, float(torch.as_tensor(loss).detach()), *map(float, values)])
        total = self._hvd.allreduce(torch.from_numpy(sums), op=self._hvd.Sum, name="measured").tolist()
        means = iter(value / total[0] for value in total[1:])
        return {
            "loss": next(means),
            "all_metrics": [
                {f"group_{number}_{label}": next(means) for label in labels} for number in range(len(functions))
            ],
        }

    def _prepared(self, batch: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor | None]:
        training = self._training
        shapes = self._shapes or [None] * len(training.feature_cols)
        inputs = [shaped(self._tensor(batch[name]), shape) for name, shape in zip(training.feature_cols, shapes)]
        shapes = training.label_shapes or [None] * len(training.label_cols)
        labels = [self._tensor(batch[name]) for name in training.label_cols]
        labels = [label if shape is None else shaped(label, shape) for label, shape in zip(labels, shapes)]
        weight = training.sample_weight_col
        return inputs, labels, self._tensor(batch[weight]).reshape(-1) if weight else None

    def _tensor(self, values: Any) -> torch.Tensor:
        tensor = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        return tensor.to(self._device, torch.float32)

    def _train_on(self, inputs: Any, labels: Any, weights: Any) -> Any:
        if self._custom is not None:
            return self._custom(self._model, self._optimizer, matched, self._losses, inputs, labels, weights)
        if self._pass % self._passes == 0:
            self._optimizer.zero_grad()
        outputs, loss = self._validate_on(inputs, labels, weights)
        loss.backward()
        self._pass += 1
        if self._pass % self._passes == 0:
            self._optimizer.step()
        return outputs, loss

    def _validate_on(self, inputs: Any, labels: Any, weights: Any) -> Any:
        outputs, labels = matched(self._model(*inputs), labels)
        return outputs, self._losses(outputs, labels, weights)

    def _state(self) -> bytes:
        """Return the state of model and optimizer, with learning rates as for one rank."""
        optimizer = copy.deepcopy(self._optimizer.state_dict())
        for group in optimizer["param_groups"]:
            group["lr"] /= self._hvd.size()
        return saved({"model": self._model.state_dict(), "optimizer": optimizer})


def _groups(metrics: Any) -> list[Any]:
    """Return groups of metrics; what is not in a group is one."""
    return [group if isinstance(group, (list, tuple)) else [group] for group in metrics or ()]


def matched(outputs: Any, labels: Sequence[torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
    """Return outputs as a list, and labels in their shapes where they have as many values."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    labels = [label.reshape(output.shape) if hasattr(output, "shape") and output.numel() == label.numel() else label
              for label, output in zip(labels, outputs)]  # fmt: skip
    return outputs, labels


def _replace(path: str, data: bytes) -> None:
    """Write a file at once: a checkpoint is the last or the new one."""
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.replace(f"{path}.new", path)


def _log(folder: str) -> Any:
    """Return TensorBoard's writer, where that is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder)


def _write(log: Any, measured: dict[str, Any]) -> None:
    if log is None:
        return
    for part in ("train", "validation"):
        for name, value in [("loss", measured.get(part, {}).get("loss"))] + [
            item for group in measured.get(part, {}).get("all_metrics", ()) for item in group.items()
        ]:
            if value is not None:
                log.add_scalar(f"{part}/{name}", value, measured["epoch"])
    log.flush()
