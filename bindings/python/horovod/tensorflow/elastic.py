"""Training that goes on after workers fail, leave or come: ``import horovod.tensorflow as hvd; hvd.elastic``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.elastic import ObjectState, Training, run_fn
from horovod.tensorflow.functions import broadcast_object, broadcast_variables
from horovod.tensorflow.mpi_ops import init, rank, shutdown


def run(func: Training) -> Training:
    """Decorate a training function so that it is started again, from the last commit, when a collective fails.

    Parameters
    ----------
    func : callable
        ``func(state, *args, **kwargs)``, where `state` is one of this module's.

    Returns
    -------
    callable
        Takes the same arguments; see :func:`horovod.common.elastic.run_fn`.
    """
    return run_fn(func, _reset, tf.errors.OpError)


def _reset() -> None:
    shutdown()
    init()


class TensorFlowState(ObjectState):
    """Variables, and attributes that are saved, restored and synchronised with them.

    Parameters
    ----------
    variables : sequence of variables, optional
        By default, in graphs, all global ones.
    session : tf.compat.v1.Session, optional
        Where a graph's variables have their values.
    **kwargs
        The attributes and their first values.
    """

    def __init__(self, variables: Sequence[Any] | None = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        self.session = session
        self._saved_values: list[Any] = []
        super().__init__(functools.partial(broadcast_object, session=session), rank, **kwargs)
        self._save_variables()

    def _save_variables(self) -> None:
        if self.session is not None:
            self._saved_values = self.session.run(self.variables)
        else:
            self._saved_values = [variable.numpy() for variable in self.variables]

    def save(self) -> None:
        """Keep a copy of the variables and attributes."""
        self._save_variables()
        super().save()

    def restore(self) -> None:
        """Go back to the last copy."""
        for variable, value in zip(self.variables, self._saved_values):
            if self.session is not None:
                variable.load(value, self.session)
            else:
                variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Give all ranks what rank 0 has; collective."""
        if self.session is not None:
            with self.session.graph.as_default():
                self.session.run(broadcast_variables(self.variables, root_rank=0))
        else:
            broadcast_variables(self.variables, root_rank=0)
        self._save_variables()
        super().sync()


class TensorFlowKerasState(TensorFlowState):
    """A Keras model with its optimizer, and attributes that are saved, restored and synchronised with them.

    Parameters
    ----------
    model : keras.Model
        Built: its variables exist.
    optimizer : keras.optimizers.Optimizer, optional
        By default the model's.
    backend : module, optional
        ``keras.backend``, whose session is taken where there is one.
    **kwargs
        The attributes and their first values.

    Raises
    ------
    ValueError
        For a model that is not built.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not model.built:
            raise ValueError("Model must be built first. Run `model.build(input_shape)`, or call the model on a batch.")
        self.model = model
        self.optimizer = model.optimizer if optimizer is None else optimizer
        session = backend.get_session() if backend is not None and hasattr(backend, "get_session") else None
        super().__init__(model.variables + self._optimizer_variables(), session, **kwargs)

    def _optimizer_variables(self) -> list[Any]:
        variables = getattr(self.optimizer, "variables", [])
        return list(variables() if callable(variables) else variables)

    def _save_variables(self) -> None:
        self.variables = self.model.variables + self._optimizer_variables()  # the first step makes some
        super()._save_variables()

    def sync(self) -> None:
        """Give all ranks what rank 0 has; collective."""
        if self.optimizer is not None and not getattr(self.optimizer, "built", True):
            self.optimizer.build(self.model.trainable_variables)
        self.variables = self.model.variables + self._optimizer_variables()
        super().sync()
