"""Optimizers whose gradients are reduced over the ranks, and what gives all ranks the same start in sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import GradientReducer, check_groups
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.functions import broadcast_variables
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper, done_after, own_variable
from horovod.tensorflow.mpi_ops import Adasum, Average
from horovod.tensorflow.util import _executing_eagerly

_LegacyOptimizer: Any = tf.compat.v1.train.Optimizer


def broadcast_global_variables(root_rank: int) -> Any:
    """Return an op that gives the root's values to all global variables of the graph.

    Raises
    ------
    RuntimeError
        When ops run as they are called: there is no graph then.
    """
    if _executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution. Please use "
            "hvd.broadcast_variables(<model/optimizer variables>) instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives all ranks the root's variables when a session is made, whatever they were initialised or restored to.

    Parameters
    ----------
    root_rank : int
        The rank that has the values.
    device : str
        Where the op is to be placed.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Add the op, once for each graph."""
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it."""
        session.run(self.bcast_op)


class _Wrapper(_LegacyOptimizer):
    """Stands for an optimizer of ``tf.compat.v1``."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool) -> None:
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return pairs of gradient and variable."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Apply them as the wrapped optimizer does."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return the wrapped optimizer's slot."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names of the wrapped optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Return the wrapped optimizer's variables."""
        return self._optimizer.variables(*args, **kwargs)


class _DistributedOptimizer(_Wrapper):
    """Gradients are reduced in :meth:`compute_gradients`."""

    def __init__(
        self, optimizer: Any, name: str, use_locking: bool, reducer: GradientReducer, passes: int, averages: bool
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._reducer = reducer
        self._aggregation: LocalGradientAggregationHelper | None = None
        if passes > 1:
            self._aggregation = LocalGradientAggregationHelper(
                passes, reducer.reduce, reducer.sparse_as_dense, average_aggregated_gradients=averages
            )

    def register_local_var(self, var: Any) -> None:
        """Leave the gradients of a variable as they are on every rank."""
        self._reducer.register_local(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return pairs of reduced gradient and variable."""
        pairs = super().compute_gradients(*args, **kwargs)
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        reduce = self._reducer.reduce if self._aggregation is None else self._aggregation.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply them as the wrapped optimizer does, in every n-th backward pass."""
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return super(_DistributedOptimizer, self).apply_gradients(pairs, global_step=global_step, name=name)

        if self._aggregation is None:
            return apply()
        return self._aggregation.apply_gradients(apply, [gradient for gradient, _ in pairs], global_step)


class _DeltaOptimizer(_Wrapper):
    """Adasum: what the optimizer changes on each rank is combined, and not its gradients."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool, reducer: GradientReducer, passes: int) -> None:
        super().__init__(optimizer, name, use_locking)
        self._reducer = reducer
        self._passes = passes

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply them on this rank, and in every n-th pass combine what has changed since the last time."""
        pairs = list(grads_and_vars)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.name_scope("horovod_adasum"):
            # Global, as Horovod's slots are: programs initialise these alone.
            count = own_variable("passes", tf.zeros([], tf.int32), is_local=False)
            starts = [own_variable("start", tf.zeros(v.shape, v.dtype), is_local=False) for v in variables]
            begun = tf.cond(
                tf.equal(count.read_value(), 0),
                lambda: done_after(*[start.assign(v.read_value()).op for start, v in zip(starts, variables)]),
                done_after,
            )
        with tf.control_dependencies([begun]):
            pairs = [(None if g is None else _after_dependencies(g), variable) for g, variable in pairs]
            applied = super().apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies([applied]), tf.control_dependencies([count.assign_add(1).op]):
            is_last = tf.equal(count.read_value(), self._passes)

        def combine() -> tf.Tensor:
            changes = [variable.read_value() - start.read_value() for variable, start in zip(variables, starts)]
            combined = self._reducer.reduce(changes, variables)
            updates = [v.assign(start.read_value() + c).op for v, start, c in zip(variables, starts, combined)]
            return done_after(*updates, count.assign(0).op)

        return tf.cond(is_last, combine, done_after).op


def _make_allreduce_grads_fn(
    name: str,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    groups: int | list[list[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[..., list[Any]]:
    """Return what reduces a list of gradients: other code makes optimizers of its own with it."""
    reducer = GradientReducer(
        name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
        check_groups(0, groups), process_set,
    )  # fmt: skip

    def reduce(gradients: Sequence[Any], variables: Sequence[Any] | None = None) -> list[Any]:
        gradients = list(gradients)
        return reducer.reduce(gradients, gradients if variables is None else list(variables))

    return reduce


def _after_dependencies(gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.identity(gradient.values), gradient.indices, gradient.dense_shape)
    return tf.identity(gradient)


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | list[list[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer that applies gradients which are reduced over the ranks.

    Parameters
    ----------
    optimizer : tf.compat.v1.train.Optimizer or Keras optimizer
        What applies them. One of Keras' goes to :func:`horovod.tensorflow.keras.DistributedOptimizer`.
    name : str, optional
        Of the new optimizer.
    use_locking : bool
        For an optimizer of ``tf.compat.v1``.
    device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups, \
process_set, scale_local_gradients
        As in :func:`horovod.tensorflow.DistributedGradientTape`.
    backward_passes_per_step, average_aggregated_gradients
        How many passes are added up before they are reduced, and whether the sum is divided by their number.

    Raises
    ------
    ValueError
        For Adasum with `average_aggregated_gradients`; for several passes of an optimizer of ``tf.compat.v1`` where ops
        run as they are called.
    """
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
    if not isinstance(optimizer, _LegacyOptimizer):
        return _of_keras(
            optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
            backward_passes_per_step, average_aggregated_gradients, num_groups, groups, process_set,
            scale_local_gradients,
        )  # fmt: skip
    if backward_passes_per_step > 1 and _executing_eagerly():
        raise ValueError(
            "backward_passes_per_step > 1 is not supported for optimizers of tf.compat.v1 where ops run as they are "
            "called: use a Keras optimizer."
        )
    name = name or f"Distributed{'Delta' if op == Adasum else ''}{type(optimizer).__name__}"
    reducer = GradientReducer(
        name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
        check_groups(num_groups, groups), process_set, scale_local_gradients,
    )  # fmt: skip
    if op == Adasum:
        return _DeltaOptimizer(optimizer, name, use_locking, reducer, backward_passes_per_step)
    return _DistributedOptimizer(
        optimizer, name, use_locking, reducer, backward_passes_per_step, average_aggregated_gradients
    )


def _of_keras(optimizer: Any, *arguments: Any) -> Any:
    if not hasattr(optimizer, "get_config"):
        raise ValueError(
            f"DistributedOptimizer takes an optimizer of tf.compat.v1.train or Keras, not {type(optimizer).__name__}."
        )
    from horovod.tensorflow import keras

    return keras.DistributedOptimizer(optimizer, *arguments)
