"""Variables and Python objects, sent from one rank to all or gathered from all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod._keras.variables import shared
from horovod.common import objects
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.util import _executing_eagerly


def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Give the root's values to the variables of all ranks.

    Parameters
    ----------
    variables : sequence of variables
        TensorFlow's or Keras'; in the same order on all ranks. What a distributed optimizer of Keras adds up over
        several passes stays every rank's own.
    root_rank : int
        World rank of the sender.
    process_set : ProcessSet
        Who takes part.
    inplace : bool
        For Horovod's programs: values are always assigned.

    Returns
    -------
    tf.Operation or None
        In graphs, what does it when it runs.
    """
    del inplace
    variables = [variable.value if _is_keras_variable(variable) else variable for variable in shared(variables)]
    if not variables:
        return None if _executing_eagerly() else tf.no_op()
    updates = mpi_ops.broadcast_(variables, root_rank, "broadcast_variables", process_set)
    return None if _executing_eagerly() else tf.group(*updates)


def _is_keras_variable(variable: Any) -> bool:
    """Tell whether it is one of Keras 3, which holds one of TensorFlow."""
    return not isinstance(variable, tf.Variable) and isinstance(getattr(variable, "value", None), tf.Variable)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send a picklable object from the root to all ranks; no graph is built, and `session` is not needed.

    Parameters, result and errors as in :func:`horovod.common.objects.broadcast_object`.
    """
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """Return :func:`broadcast_object` with all its arguments but the object."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Collect one picklable object of every rank, as :func:`horovod.common.objects.allgather_object`."""
    del session
    return objects.allgather_object(obj, name, process_set)
