"""Gradients of several backward passes, added up on each rank and reduced once, in graphs of ``tf.compat.v1``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Gradient = Any  # a tensor, IndexedSlices or None


def own_variable(name: str, value: Any) -> Any:
    """Return a variable of this rank's own, that is neither saved nor broadcast."""
    kinds = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
    return tf.compat.v1.Variable(value, trainable=False, collections=kinds, name=name, use_resource=True)


def done_after(*operations: Any) -> tf.Tensor:
    """Return a tensor that is there when the operations have run, as a branch's result."""
    with tf.control_dependencies(operations):
        return tf.constant(True)


class LocalGradientAggregationHelper:
    """Variables of the graph that hold the sums, and how many passes are in them.

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

    def _dense(self, gradient: Gradient, variable: Any) -> Gradient:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self._sparse_as_dense:
            raise ValueError(
                f"The gradient of {variable.name} is IndexedSlices, which are not added up over backward passes: give "
                "sparse_as_dense=True."
            )
        return tf.convert_to_tensor(gradient)

    def compute_gradients(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Return, in every n-th pass, the reduced sums, and else the sums so far; None stays None."""
        places = [i for i, gradient in enumerate(gradients) if gradient is not None]
        dense = [self._dense(gradients[i], variables[i]) for i in places]
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
