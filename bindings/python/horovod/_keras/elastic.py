"""State of an elastic job of Keras, and the callbacks that keep it up to date."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from horovod import _roda
from horovod._keras.backend import framework_of
from horovod._keras.binding import BesideCallback
from horovod._keras.variables import build, fetch_state, variables_of
from horovod.common.elastic import ObjectState, State


class KerasStateImpl(ObjectState):
    """A model with its optimizer, and attributes that are saved, restored and synchronised with them.

    Parameters
    ----------
    model : keras.Model
        Built: its variables exist.
    optimizer : keras.optimizers.Optimizer, optional
        By default the model's. Its variables are made if they aren't there: all ranks need the same.
    **kwargs
        The attributes and their first values.

    Raises
    ------
    ValueError
        For a model that is not built.
    """

    keras: ModuleType

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not model.built:
            raise ValueError("Model must be built first. Run `model.build(input_shape)`, or call it on a batch.")
        self.model = model
        self.optimizer = model.optimizer if optimizer is None else optimizer
        if self.optimizer is not None and not getattr(self.optimizer, "built", False):
            build(self.optimizer, model.trainable_variables)
        self._saved_values: list[np.ndarray] = []
        self._framework = framework_of(self.keras)
        super().__init__(self._framework.broadcast_object, _roda.rank, **kwargs)
        self._save_variables()

    def _variables(self) -> list[Any]:
        return [*self.model.weights, *([] if self.optimizer is None else variables_of(self.optimizer))]

    def _save_variables(self) -> None:
        fetch_state(self.model)
        self._saved_values = [np.array(variable.numpy()) for variable in self._variables()]

    def save(self) -> None:
        """Keep a copy of everything in memory."""
        self._save_variables()
        super().save()

    def restore(self) -> None:
        """Go back to the last copy."""
        for variable, value in zip(self._variables(), self._saved_values):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Give all ranks what rank 0 has; collective."""
        fetch_state(self.model)
        self._framework.broadcast_variables(self._variables(), 0)
        self._save_variables()
        super().sync()


class CommitStateCallbackImpl(BesideCallback):
    """Commits the state every so many batches, and at the end of every epoch.

    Parameters
    ----------
    state : State
        What is committed.
    batches_per_commit : int
        Commits cost time; a failure costs the batches since the last one.
    """

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Count anew."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commit when it is time."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commit what the other callbacks say of the epoch."""
        self.state.commit()


class UpdateBatchStateCallbackImpl(BesideCallback):
    """Keeps ``state.batch``, and tells Keras' progress that an epoch which is gone on with is shorter.

    Parameters
    ----------
    state : ObjectState
        Has an attribute `batch`.
    """

    def __init__(self, state: ObjectState) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Forget the last training's epochs."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Leave out the batches that were done."""
        if self.params.get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Take note of the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Begin with the first batch again."""
        self.state.batch = 0


class UpdateEpochStateCallbackImpl(BesideCallback):
    """Keeps ``state.epoch``: epochs that are done, also those before the last reset.

    Parameters
    ----------
    state : ObjectState
        Has an attribute `epoch`.
    """

    def __init__(self, state: ObjectState) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Take note of where this training begins."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count the epoch."""
        self.state.epoch = self.initial_epoch + epoch + 1
