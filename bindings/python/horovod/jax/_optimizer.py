"""Transformations of optax whose gradients are reduced over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from horovod.common.basics import Adasum, Average
from horovod.common.claimant import Claimant
from horovod.common.operations import ALLGATHER, REDUCESCATTER, set_id_of
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax import mpi_ops
from horovod.jax._collectives import bind, parts_of, place_in
from horovod.jax.compression import Compression, Compressor

Tree = Any
# A step makes updates and the new state of gradients, the optimizer's state, parameters and further arguments.
Step = Callable[[Tree, Any, Any, dict[str, Any]], "tuple[Tree, Any]"]


class AccumulationState(NamedTuple):
    """The optimizer's state, and gradients that are not applied yet."""

    inner: Any
    passes: Any
    gradients: Tree


def distributed(
    optimizer: Any,
    name: str = "gradients",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    gradient_predivide_factor: float = 1.0,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    sharded: bool = False,
) -> Any:
    """Return an optimizer that reduces gradients over the ranks before it applies them: one group a step.

    Parameters
    ----------
    optimizer : optax.GradientTransformation
        Or anything with its fields. Its own state is kept as it is.
    name : str
        The name by which the ranks match. Optimizers of one name are told apart by the order of their first use.
    compression : Compressor
        Applied to what travels.
    op : int
        ``Average``, ``Sum`` or ``Adasum``.
    process_set : ProcessSet
        Who takes part.
    gradient_predivide_factor : float
        Gradients are divided by it before they are added up, and multiplied after that. With ``Average`` alone.
    backward_passes_per_step : int
        Gradients of so many updates are added up before they are reduced and applied; the updates between are zeros.
    average_aggregated_gradients : bool
        Whether these sums are divided by their number.
    sharded : bool
        Every rank keeps the state of its part of each parameter alone, and computes that part's update (ZeRO's first
        stage). For optimizers that treat elements alike, as SGD and Adam do; not for those that look at a whole tensor
        or tree, such as clipping by a global norm.

    Returns
    -------
    optax.GradientTransformation
        Of the type of `optimizer`. The state of the optimizer is this rank's own where `sharded` is set.

    Raises
    ------
    ValueError
        For arguments that do not fit together.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor is supported only with op == Average.")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is at least 1, not {backward_passes_per_step}.")
    if sharded and (op == Adasum or compression is not Compression.none):
        raise ValueError("sharded=True works with op=Average or Sum, and without compression.")
    factors: dict[str, Any] = {
        "prescale_factor": 1 / gradient_predivide_factor,
        "postscale_factor": gradient_predivide_factor,
    }

    claimant = Claimant(process_set)

    def own_name() -> str:
        return claimant.prefix([name]) + name

    def reduced_step(gradients: Tree, state: Any, params: Any, more: dict[str, Any]) -> tuple[Tree, Any]:
        gradients = mpi_ops.allreduce(
            gradients, name=own_name(), compression=compression, op=op, process_set=process_set, **factors
        )
        return optimizer.update(gradients, state, params, **more)

    step: Step = reduced_step
    init = optimizer.init
    if sharded:
        parts = _Parts(optimizer, own_name, op, set_id_of(process_set), factors)
        step, init = parts.step, parts.init
    if backward_passes_per_step == 1:
        return optimizer._replace(init=init, update=lambda g, s, p=None, **more: step(g, s, p, more))
    divisor = backward_passes_per_step if average_aggregated_gradients else 1
    accumulation = _Accumulation(init, step, backward_passes_per_step, divisor)
    return optimizer._replace(init=accumulation.init, update=accumulation.update)


DistributedOptimizer = distributed  # as other frameworks' users call it


class _Accumulation:
    def __init__(self, init: Callable[[Tree], Any], step: Step, passes: int, divisor: int) -> None:
        self._init, self._step, self._passes, self._divisor = init, step, passes, divisor

    def init(self, params: Tree) -> AccumulationState:
        zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
        return AccumulationState(self._init(params), jnp.zeros((), jnp.int32), zeros)

    def update(
        self, gradients: Tree, state: AccumulationState, params: Any = None, **more: Any
    ) -> tuple[Tree, AccumulationState]:
        total = jax.tree_util.tree_map(lambda a, b: (a + b).astype(a.dtype), state.gradients, gradients)
        passes = state.passes + 1

        def apply() -> tuple[Tree, AccumulationState]:
            scaled = jax.tree_util.tree_map(lambda a: (a / self._divisor).astype(a.dtype), total)
            updates, inner = self._step(scaled, state.inner, params, more)
            zeros = jax.tree_util.tree_map(jnp.zeros_like, total)
            return updates, AccumulationState(inner, jnp.zeros_like(passes), zeros)

        nothing = jax.tree_util.tree_map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(lambda: apply()[0])
        )
        return jax.lax.cond(
            passes == self._passes, apply, lambda: (nothing, AccumulationState(state.inner, passes, total))
        )


class _Parts:
    """Every tensor in memory order, divided over the ranks as a reducescatter does it."""

    def __init__(
        self, optimizer: Any, name: Callable[[], str], op: int, process_set: int, factors: dict[str, Any]
    ) -> None:
        self._optimizer, self._name, self._op, self._set = optimizer, name, op, process_set
        self._factors = {"prescale": factors["prescale_factor"], "postscale": factors["postscale_factor"]}

    def _own(self, leaf: Any) -> Any:
        counts, place = parts_of(leaf.size, self._set), place_in(self._set)
        begin = sum(counts[:place])
        return jnp.ravel(leaf)[begin : begin + counts[place]]

    def init(self, params: Tree) -> Any:
        return self._optimizer.init(jax.tree_util.tree_map(self._own, params))

    def step(self, gradients: Tree, state: Any, params: Any, more: dict[str, Any]) -> tuple[Tree, Any]:
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        if not leaves:
            return self._optimizer.update(gradients, state, params, **more)
        own = structure.unflatten(self._scatter([jnp.ravel(leaf) for leaf in leaves]))
        own_params = None if params is None else jax.tree_util.tree_map(self._own, params)
        updates, state = self._optimizer.update(own, state, own_params, **more)
        rows = tuple(parts_of(leaf.size, self._set) for leaf in leaves)
        whole = bind(structure.flatten_up_to(updates), ALLGATHER, f"{self._name()}.gather", self._set, rows=rows)
        return structure.unflatten([flat.reshape(leaf.shape) for flat, leaf in zip(whole, leaves)]), state

    def _scatter(self, flat: Sequence[Any]) -> list[Any]:
        return bind(flat, REDUCESCATTER, f"{self._name()}.scatter", self._set, op=self._op, **self._factors)
