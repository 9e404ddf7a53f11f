"""Callbacks. Those of ``horovod.keras`` and ``horovod.tensorflow.keras`` add Keras' base class and `keras`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from horovod import _roda
from horovod._keras.backend import framework_of
from horovod._keras.binding import BesideCallback
from horovod._keras.optimizer import Distributed
from horovod._keras.values import collective
from horovod._keras.variables import fetch_state, variables_of
from horovod.common import stragglers
from horovod.common.basics import Average


def _number(value: Any) -> float:
    return float(value.numpy() if hasattr(value, "numpy") else value)


class BroadcastGlobalVariablesCallbackImpl(BesideCallback):
    """Gives all ranks the root's model and optimizer at the end of the first batch, when all variables are there.

    Parameters
    ----------
    root_rank : int
        The rank that has the values.
    device : str
        For Horovod's programs: ignored.
    local_variables : sequence of variables, optional
        Those that stay as they are on every rank.
    """

    keras: ModuleType

    def __init__(self, root_rank: int, device: str = "", local_variables: Sequence[Any] | None = None) -> None:
        super().__init__()
        del device
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = {id(variable) for variable in local_variables or ()}

    def register_local_var(self, var: Any) -> None:
        """Leave a variable as it is on every rank."""
        self._local.add(id(var))

    def set_model(self, model: Any) -> None:
        """Refuse what would hang, and leave XLA out of it where it has no kernels of ours."""
        super().set_model(model)
        optimizer = getattr(model, "optimizer", None)
        if isinstance(getattr(optimizer, "inner_optimizer", None), Distributed):
            raise ValueError(
                "The distributed optimizer is inside of a LossScaleOptimizer, where ranks whose gradients overflow do "
                "not reduce and the others wait. Compile the model with "
                "DistributedOptimizer(LossScaleOptimizer(optimizer))."
            )
        if isinstance(optimizer, Distributed) and not framework_of(self.keras).XLA_HAS_OPS:
            model.jit_compile = False

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcast, once."""
        if self.broadcast_done:
            return
        fetch_state(self.model)
        variables = [*self.model.weights, *variables_of(self.model.optimizer)]
        variables = [variable for variable in variables if id(variable) not in self._local]
        framework_of(self.keras).broadcast_variables(variables, self.root_rank)
        self.broadcast_done = True


class MetricAverageCallbackImpl(BesideCallback):
    """Replaces an epoch's metrics by their averages over the ranks; stands before callbacks that use them.

    Parameters
    ----------
    device : str
        For Horovod's programs: ignored.
    """

    keras: ModuleType

    def __init__(self, device: str = "") -> None:
        super().__init__()
        del device

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Average all metrics at once."""
        names = sorted(logs or ())
        if names:
            values = np.array([_number(logs[name]) for name in names])
            name = "metrics." + ".".join(names)  # so that ranks with other metrics don't get these
            averages = collective(self.keras, "allreduce", values, name=name, op=Average)
            logs.update(zip(names, map(float, averages)))


class StragglerCallbackImpl(BesideCallback):
    """Adds to an epoch's metrics which rank kept the others waiting, for callbacks that follow, as CSVLogger does.

    ``straggler`` is the rank that the job has named since the epoch before (:func:`horovod.keras.on_straggler`), -1
    where none was; ``straggler_ms`` by how much it comes last.
    """

    keras: ModuleType

    def __init__(self) -> None:
        super().__init__()
        self._latest = stragglers.Latest()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add them."""
        if logs is not None:
            logs.update(self._latest.take())


class LearningRateScheduleCallbackImpl(BesideCallback):
    """Sets the learning rate to ``initial_lr * multiplier(epoch)``.

    Parameters
    ----------
    initial_lr : float
        The rate that is multiplied.
    multiplier : float or callable
        A factor for each epoch after `start_epoch`, or a function of the epoch.
    start_epoch, end_epoch : int
        From which epoch on, and before which one, the rate is set; by default to the end.
    staircase : bool
        Whether it changes with epochs only; else with every batch, by fractions of epochs.
    momentum_correction : bool
        Whether the optimizer's momentum is scaled with the rate for a batch that changes it. Not possible where the
        momentum is a number in a step that Keras compiles (Keras 3 on TensorFlow).
    steps_per_epoch : int, optional
        Batches of an epoch, where Keras doesn't know them.

    Raises
    ------
    ValueError
        Without an `initial_lr`; when training begins, without steps per epoch that Keras knows.
    """

    keras: ModuleType

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required: the learning rate that is multiplied.")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch: Any = steps_per_epoch  # a number once training begins, where there is need of one
        self.current_epoch = 0
        self.restore_momentum: Any = None
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)

    def _autodetect_steps_per_epoch(self) -> int:
        if self.params.get("steps"):
            return self.params["steps"]
        if self.params.get("samples") and self.params.get("batch_size"):
            return self.params["samples"] // self.params["batch_size"]
        raise ValueError(
            "Could not autodetect the number of steps per epoch. Please specify the steps_per_epoch parameter to the "
            f"{type(self).__name__}() or upgrade to the latest version of Keras."
        )

    def _scales_momentum(self) -> bool:
        momentum = getattr(self.model.optimizer, "momentum", None)
        if not self.momentum_correction or momentum is None or (isinstance(momentum, float) and momentum == 0.0):
            return False
        compiled = framework_of(self.keras).COMPILES and not self.model.run_eagerly
        if compiled and isinstance(momentum, (int, float)):
            warnings.warn("momentum_correction has no effect: Keras compiled the momentum into the step.", stacklevel=3)
            return False
        return True

    def on_train_begin(self, logs: Any = None) -> None:
        """Find out how many batches an epoch has."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self._autodetect_steps_per_epoch()
        self.momentum_correction = self._scales_momentum()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Take note of the epoch."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the rate, where it is this callback's turn."""
        if self.current_epoch < self.start_epoch:
            return
        if self.end_epoch is not None and self.current_epoch >= self.end_epoch:
            return
        if not self.staircase:
            self._adjust_learning_rate(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust_learning_rate(self.current_epoch)

    def _adjust_learning_rate(self, epoch: float) -> None:
        fetch_state(self.model)
        optimizer = self.model.optimizer
        old, new = _number(optimizer.learning_rate), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old:
            self.restore_momentum = _number(optimizer.momentum)
            optimizer.momentum = self.restore_momentum * new / old

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Give the optimizer its momentum back."""
        self._restore_momentum_if_needed()

    def _restore_momentum_if_needed(self) -> None:
        if self.restore_momentum is not None:
            self.model.optimizer.momentum = self.restore_momentum
            self.restore_momentum = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the rate to the metrics."""
        if logs is not None:
            logs["lr"] = _number(self.model.optimizer.learning_rate)


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Raises the learning rate from that of one process to that of all, in the first epochs.

    Parameters
    ----------
    initial_lr : float
        The rate after the warm-up: for all processes.
    warmup_epochs : int
        How long it takes.
    momentum_correction, steps_per_epoch
        As in ``LearningRateScheduleCallback``.
    verbose : int
        Whether rank 0 says when it is done.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            epoch += 1.0 / self.steps_per_epoch  # so that the last batch reaches the full rate
            size = _roda.size()
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the rate to the metrics, and say that the warm-up is done."""
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch + 1 == self.end_epoch and _roda.rank() == 0:
            rate = _number(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class BestModelCheckpointImpl(BesideCallback):
    """Saves the model of the best epoch, to a `filepath` that is set later.

    Parameters as in ``keras.callbacks.ModelCheckpoint``.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(
            filepath="best.weights.h5" if save_weights_only else "best.keras",  # which Keras checks
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath: str | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Refuse to train without a place to save to."""
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no file to save to: set its attribute `filepath`.")
        super().on_train_begin(logs)
