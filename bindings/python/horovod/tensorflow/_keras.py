"""Keras on TensorFlow: gradients are reduced by ops of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.common.claimant import Claimant
from horovod.tensorflow._gradients import GradientReducer, check_groups
from horovod.tensorflow.gradient_aggregation import KerasAggregation as KerasAggregation

COMPILES = True  # a training step is traced once: what Python numbers are then stays
XLA_HAS_OPS = False

broadcast_object = hvd.broadcast_object


def tensor(value: Any) -> Any:
    """Return a tensor of a plain value; Python's numbers in double precision."""
    return value if tf.is_tensor(value) else tf.convert_to_tensor(np.asarray(value))


def evaluate(result: Any) -> Any:
    """Return a result: in eager mode the tensor, as Horovod does, and in graphs what Keras' session says."""
    if result is None or tf.executing_eagerly():
        return result
    return tf.compat.v1.keras.backend.get_session().run(result)


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Give the root's values to the variables of all ranks."""
    evaluate(hvd.broadcast_variables(variables, root_rank))


def broadcast_global_variables(root_rank: int) -> None:
    """Give all ranks the root's variables of the session's graph."""
    evaluate(hvd.broadcast_global_variables(root_rank))


class _Reducer(GradientReducer):
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._claimant = Claimant(self.process_set)

    def reduce(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        use_generic_names: bool = False,
        ignore_name_scope: bool = True,
    ) -> list[Any]:
        """Reduce, whatever the scope: Keras counts its optimizers, and ranks may have made more of them."""
        return super().reduce(gradients, variables, use_generic_names, ignore_name_scope)

    def _name_of(self, places: list[int], variables: Sequence[Any], use_generic_names: bool) -> str | None:
        name = super()._name_of(places, variables, use_generic_names)
        return name and self._claimant.prefix([name]) + name

    def reduce_accumulated(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Reduce what the optimizer added up over several passes."""
        return self.reduce(gradients, variables)


def make_reducer(name: str, *, groups: Any, **options: Any) -> _Reducer:
    """Return the reducer of an optimizer's gradients; options as of ``GradientReducer``."""
    return _Reducer(name, groups=check_groups(0, groups), **options)
