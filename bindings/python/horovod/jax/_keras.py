"""Keras on JAX: gradients are reduced within the compiled step, as one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import horovod.jax as hvd
from horovod._keras.reducer import DenseReducer
from horovod._keras.variables import shared

COMPILES = True
XLA_HAS_OPS = True

broadcast_object = hvd.broadcast_object


def tensor(value: Any) -> jax.Array:
    """Return an array of a plain value; in single precision where JAX knows no other."""
    return jnp.asarray(value)


def evaluate(result: jax.Array) -> Any:
    """Return a result as NumPy's."""
    return np.asarray(result)


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Give the root's values to the variables of all ranks."""
    variables = shared(variables)
    # Named by their number: Keras counts what it makes, and ranks may have made more.
    values = hvd.broadcast_parameters(
        [variable.value for variable in variables], root_rank, name=f"keras.variables.{len(variables)}"
    )
    for variable, value in zip(variables, values):
        variable.assign(value)


def broadcast_global_variables(root_rank: int) -> None:
    """Raise RuntimeError: there is no graph whose variables they were."""
    raise RuntimeError(
        "hvd.broadcast_global_variables() does not support eager execution. Use "
        "hvd.callbacks.BroadcastGlobalVariablesCallback."
    )


class _Reducer(DenseReducer):
    def reduce_accumulated(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Reduce in the pass that applies them: Keras on JAX computes a step in every pass, and drops it in others."""
        is_last = (optimizer._iterations.value + 1) % optimizer.gradient_accumulation_steps == 0
        if isinstance(is_last, jax.core.Tracer):
            return jax.lax.cond(is_last, lambda given: self.reduce(given, variables), list, list(gradients))
        return self.reduce(gradients, variables) if is_last else list(gradients)


def make_reducer(name: str, **options: Any) -> DenseReducer:
    """Return the reducer of an optimizer's gradients; options as of ``DenseReducer``."""
    return _Reducer(hvd.grouped_allreduce, name, **options)
