"""An optimizer that reduces gradients over the ranks."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from horovod._keras.backend import framework_of, is_keras_2, keras_of
from horovod._keras.variables import build, variables_of
from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set


class _Reduction:
    """The reducer of the optimizers below. Keras, which tracks what is an optimizer's attribute, leaves it alone."""

    def __init__(self, reducer: Any, factor: int, aggregation: Any) -> None:
        self.reducer = reducer
        self.aggregation = aggregation  # over several passes of Keras 2; Keras 3 has its own
        self.accumulated: list[Any] = []  # whose gradients Keras adds up
        self._factor = factor

    def reduce_accumulated(self, optimizer: Any, gradients: Sequence[Any]) -> list[Any]:
        """Reduce averages of several passes; scale them to sums where those are wanted."""
        reduced = self.reducer.reduce_accumulated(optimizer, gradients, self.accumulated)
        return reduced if self._factor == 1 else [gradient * self._factor for gradient in reduced]


def _new(cls: type) -> Any:
    """Make what is unpickled: pickle lets ``copyreg.__newobj__`` do it only where ``__class__`` is the type."""
    return object.__new__(cls)


# Keras saves an optimizer as of its ``__class__``: as the wrapped class, so that models load without Horovod. The type
# is of this module: programs look for "horovod" there. In a class body the name would mean super()'s cell.
_SavedAsWrapped: Any = type("_SavedAsWrapped", (), {"__class__": property(lambda self: self._wrapped)})


class Distributed(_SavedAsWrapped):
    """The base of every optimizer that reduces gradients over the ranks."""

    _reduction: _Reduction
    _wrapped: type

    def __reduce_ex__(self, protocol: Any) -> Any:
        function, *rest = super().__reduce_ex__(max(int(protocol), 2))
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            function = _new
        elif getattr(function, "__self__", None) is type(self):  # Keras 3 goes by a saved file
            function = getattr(self._wrapped, function.__name__)
        return (function, *rest)

    def register_local_var(self, var: Any) -> None:
        """Leave the gradients of a variable as they are on every rank."""
        self._reduction.reducer.register_local(var)

    # Programs with embeddings of each rank's own replace these two, or call them.

    def _allreduce(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return self._allreduce_grads(grads, variables)

    def _allreduce_grads(self, grads: Sequence[Any], variables: Sequence[Any], **options: Any) -> list[Any]:
        return self._reduction.reducer.reduce(grads, variables, **options)


class _Keras3(Distributed):
    """Reduces in ``apply``, where the trainers of all backends come by."""

    def build(self, variables: Sequence[Any]) -> None:
        """Build; sums of several passes are every rank's own until they are reduced."""
        super().build(variables)
        for total in getattr(self, "_accumulated_gradients", ()):
            total._is_ranks_own = True

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Apply the ranks' reduced gradients."""
        grads = list(grads)
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        if self.gradient_accumulation_steps:
            self._reduction.accumulated = [
                variable
                for gradient, variable in zip(grads, variables)
                if gradient is not None and not self._overwrite_variable_with_gradient(variable)
            ]
        else:
            grads = self._allreduce(grads, variables)
        super().apply(grads, None if trainable_variables is None else variables)

    def _clip_gradients(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Reduce what was accumulated: Keras clips just before it applies, on all ranks in the same pass."""
        if self.gradient_accumulation_steps:
            grads = self._reduction.reduce_accumulated(self, grads)
        return super()._clip_gradients(grads)

    def stateless_apply(self, optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any) -> Any:
        """Apply reduced gradients without side effects, for JAX: by way of ``apply``, but in a LossScaleOptimizer."""
        if hasattr(self, "inner_optimizer"):
            grads = self._allreduce(grads, self._trainable_variables)
        return super().stateless_apply(optimizer_variables, grads, trainable_variables)


class _Keras2(Distributed):
    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the ranks' reduced gradients."""
        grads_and_vars = list(grads_and_vars)
        variables = [variable for _, variable in grads_and_vars]

        def apply(gradients: list[Any]) -> Any:
            reduced = self._allreduce(gradients, variables)
            return super(_Keras2, self).apply_gradients(list(zip(reduced, variables)), *args, **kwargs)

        if self._reduction.aggregation is None:
            return apply([gradient for gradient, _ in grads_and_vars])
        return self._reduction.aggregation.apply(grads_and_vars, self, apply)


def _check(optimizer: Any, op: int, backward_passes_per_step: int) -> None:
    if not hasattr(optimizer, "get_config"):
        raise TypeError(f"DistributedOptimizer() wraps an optimizer of Keras, and got {optimizer!r:.60}.")
    if op not in (Average, Sum):
        raise ValueError("op currently only supports Average and Sum")
    if isinstance(optimizer, Distributed):
        raise ValueError("The optimizer is distributed already: give DistributedOptimizer the one of Keras.")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step must be > 0, not {backward_passes_per_step}.")


def create_distributed_optimizer(
    keras: ModuleType,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer like `optimizer`, with its state, that reduces gradients; see ``DistributedOptimizer``.

    Its class is a subclass of the given one with the same names, so that models are saved as with that, and can be
    loaded without Horovod.
    """
    _check(optimizer, op, backward_passes_per_step)
    keras = keras_of(optimizer, keras)
    cls, config, factor, aggregation = type(optimizer), optimizer.get_config(), 1, None
    name = name or f"Distributed{cls.__name__}"
    if backward_passes_per_step > 1 and is_keras_2(keras):
        aggregation = framework_of(keras).KerasAggregation(
            backward_passes_per_step, average_aggregated_gradients, sparse_as_dense
        )
    elif backward_passes_per_step > 1:
        if config.get("gradient_accumulation_steps"):
            raise ValueError("Give backward_passes_per_step or the optimizer's gradient_accumulation_steps, not both.")
        config["gradient_accumulation_steps"] = backward_passes_per_step
        factor = 1 if average_aggregated_gradients else backward_passes_per_step
    reducer = framework_of(keras).make_reducer(
        name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    members = {
        "__module__": __name__,
        "__qualname__": cls.__qualname__,
        "_wrapped": cls,
        "__doc__": cls.__doc__,
        "_reduction": _Reduction(reducer, factor, aggregation),
    }
    kind = _Keras2 if is_keras_2(keras) else _Keras3
    made: Any = type(cls.__name__, (kind, cls), members)
    distributed = made.from_config(config)
    _copy_state(keras, optimizer, distributed)
    distributed._name = name
    return distributed


def _copy_state(keras: ModuleType, optimizer: Any, distributed: Any) -> None:
    if is_keras_2(keras):  # whose optimizers don't know what they were built for: see load_model
        return
    if optimizer.built and optimizer._trainable_variables:  # Keras builds one from an h5 file on no variables
        build(distributed, optimizer._trainable_variables)
    values = {variable.path: variable for variable in variables_of(optimizer)}
    for variable in variables_of(distributed):
        if variable.path in values:
            variable.assign(values[variable.path])


def register_local_layers(keras: ModuleType, optimizer: Any, local_layers: Any) -> None:
    """Make the weights of a layer, or of several, local ones of a distributed optimizer."""
    layers = [] if local_layers is None else local_layers
    for layer in layers if isinstance(layers, (list, tuple, set)) else [layers]:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
        if not layer.built:
            raise ValueError(f"The local layer {layer.name} has no weights yet: build the model first.")
        for variable in layer.trainable_weights:
            optimizer.register_local_var(variable)
