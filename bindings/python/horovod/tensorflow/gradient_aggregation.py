"""Gradients of several backward passes, added up on each rank and reduced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.tensorflow._gradients import key_of

Gradient = Any  # a tensor, IndexedSlices or None


def own_variable(name: str, value: Any, is_local: bool = True) -> Any:
    """Return a variable of an optimizer; of this rank's own, neither saved nor broadcast, where `is_local` is set."""
    keys = tf.compat.v1.GraphKeys
    kinds = [keys.LOCAL_VARIABLES if is_local else keys.GLOBAL_VARIABLES]
    return tf.compat.v1.Variable(value, trainable=False, collections=kinds, name=name, use_resource=True)


def done_after(*operations: Any) -> tf.Tensor:
    """Return a tensor that is there when the operations have run, as a branch's result."""
    with tf.control_dependencies(operations):
        return tf.constant(True)


def _dense(gradient: Gradient, variable: Any, sparse_as_dense: bool) -> Gradient:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    if not sparse_as_dense:
        raise ValueError(
            f"The gradient of {variable.name} is IndexedSlices, which are not added up over backward passes: give "
            "sparse_as_dense=True."
        )
    return tf.convert_to_tensor(gradient)


class KerasAggregation:
    """For optimizers of Keras 2, eager and in functions: what is applied is decided when a pass is over.

    Parameters
    ----------
    passes, averages, sparse_as_dense
        As of :class:`LocalGradientAggregationHelper`.
    """

    def __init__(self, passes: int, averages: bool, sparse_as_dense: bool) -> None:
        self._passes = passes
        self._divisor = passes if averages else 1
        self._sparse_as_dense = sparse_as_dense
        self._count: Any = None
        self._sums: dict[Any, Any] = {}  # by variable

    def apply(self, pairs: list[tuple[Gradient, Any]], optimizer: Any, apply: Callable[[list[Any]], Any]) -> Any:
        """Add a pass's gradients up; in every n-th pass call `apply` with the sums, in others count the step alone."""
        if not tf.compat.v1.executing_eagerly_outside_functions():
            raise NotImplementedError("backward_passes_per_step > 1 of Keras' optimizers works without sessions only.")
        given = [(_dense(g, variable, self._sparse_as_dense), variable) for g, variable in pairs if g is not None]
        with tf.init_scope():  # made while a function is traced, and kept
            if self._count is None:
                self._count = tf.Variable(0, trainable=False, name="horovod_passes")
            for gradient, variable in given:
                if key_of(variable) not in self._sums:
                    zeros = tf.zeros(variable.shape, gradient.dtype)
                    self._sums[key_of(variable)] = tf.Variable(zeros, trainable=False, name="horovod_sum")
        for gradient, variable in given:
            self._sums[key_of(variable)].assign_add(gradient)

        def step() -> tf.Tensor:
            sums = [None if g is None else self._sums[key_of(variable)] for g, variable in pairs]
            apply([None if total is None else total / self._divisor for total in sums])
            for total in sums:
                if total is not None:
                    total.assign(tf.zeros_like(total))
            return self._count.assign(0)

        def count() -> tf.Tensor:
            optimizer.iterations.assign_add(1)
            return tf.identity(self._count)

        tf.cond(tf.equal(self._count.assign_add(1), self._passes), step, count)
        return optimizer.iterations


class LocalGradientAggregationHelper:
    """In graphs of ``tf.compat.v1``: variables that hold the sums, and how many passes are in them.

    Parameters
    ----------
    backward_passes_per_step : int
        How many passes are added up before they are reduced and applied.
    allreduce_func : callable
        Of gradients and their variables, as lists; returns the reduced gradients.
    sparse_as_dense : bool
        Whether ``IndexedSlices`` become dense tensors; without it they are a ValueError.
    average_aggregated_gradients : bool
        Whether the sums are divided by the number of passes.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Gradient], list[Any]], Sequence[Gradient]],
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
    ) -> None:
        if backward_passes_per_step < 1:
            raise ValueError(f"backward_passes_per_step is at least 1, not {backward_passes_per_step}.")
        self._passes = backward_passes_per_step
        self._reduce = allreduce_func
        self._sparse_as_dense = sparse_as_dense
        self._divisor = backward_passes_per_step if average_aggregated_gradients else 1
        self._count: Any = None

    def compute_gradients(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Return, in every n-th pass, the reduced sums, and else the sums so far; None stays None."""
        places = [i for i, gradient in enumerate(gradients) if gradient is not None]
        dense = [_dense(gradients[i], variables[i], self._sparse_as_dense) for i in places]
        with tf.name_scope("horovod_aggregation"):
            self._count = own_variable("passes", tf.zeros([], tf.int32))
            sums = [own_variable("sum", tf.zeros(variables[i].shape, g.dtype)) for i, g in zip(places, dense)]
            counted = self._count.assign_add(1, read_value=False)
            added = [total.assign_add(gradient, read_value=False) for total, gradient in zip(sums, dense)]
            with tf.control_dependencies([counted, *added]):
                is_last = tf.equal(self._count.read_value(), self._passes)

            def reduced() -> list[Any]:
                values = [total.read_value() / self._divisor for total in sums]
                results = [tf.identity(r) for r in self._reduce(values, [variables[i] for i in places])]
                with tf.control_dependencies(results):
                    emptied = [total.assign(tf.zeros_like(total), read_value=False) for total in sums]
                    emptied.append(self._count.assign(0, read_value=False))
                with tf.control_dependencies(emptied):
                    return [tf.identity(result) for result in results]

            chosen = tf.cond(is_last, reduced, lambda: [total.read_value() for total in sums])
        results: list[Gradient] = [None] * len(gradients)
        for i, gradient in zip(places, chosen if isinstance(chosen, (list, tuple)) else [chosen]):
            results[i] = gradient
        return results

    def apply_gradients(self, apply: Callable[[], Any], gradients: Sequence[Gradient], global_step: Any = None) -> Any:
        """Return an op that applies gradients in every n-th pass, and else counts the global step alone."""

        def count() -> tf.Tensor:
            step = tf.compat.v1.train.get_global_step() if global_step is None else global_step
            return done_after(*([] if step is None else [tf.compat.v1.assign_add(step, 1).op]))

        with tf.control_dependencies([gradient for gradient in gradients if gradient is not None]):
            has_reduced = tf.equal(self._count.read_value(), 0)
        return tf.cond(has_reduced, lambda: done_after(apply()), count).op
