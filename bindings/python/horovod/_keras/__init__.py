"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` share: the optimizer, plain values, models from files.

Functions take the module `keras` first: Keras 3 on TensorFlow, PyTorch or JAX, or Keras 2 (``tf_keras``).
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import raises


def is_keras_2(keras: ModuleType) -> bool:
    """Tell whether it is the Keras from before there were backends."""
    return not hasattr(keras, "ops")


def keras_of(optimizer: Any, keras: ModuleType) -> ModuleType:
    """Return the Keras that an optimizer is of: the given one, or Keras 2 beside it (``tf_keras``)."""
    packages = {cls.__module__.partition(".")[0] for cls in type(optimizer).__mro__}
    return sys.modules["tf_keras"] if "tf_keras" in packages else keras


def framework_of(keras: ModuleType) -> ModuleType:
    """Return the module here that knows the framework which Keras computes with; ImportError where there is none."""
    name = keras.backend.backend()
    if name not in ("tensorflow", "torch", "jax"):
        raise ImportError(
            f"horovod.keras cannot reduce gradients of Keras' backend {name}. "
            "Set KERAS_BACKEND to tensorflow, torch or jax before keras is imported."
        )
    return importlib.import_module(f"horovod.{name}._keras")


def fetch_state(model: Any) -> None:
    """Bring a model's variables up to date, to be read and set within ``fit``: on JAX the step has them."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def bind(impl: type, keras: ModuleType, base: str | None = "Callback") -> type:
    """Return the public class of an implementation here: a callback of that Keras."""
    bases = (impl, *([getattr(keras.callbacks, base)] if base else []))
    return type(impl.__name__.removesuffix("Impl"), bases, {"keras": keras, "__doc__": impl.__doc__})


BesideCallback: Any = object  # the implementations' base: in a public class a callback of Keras comes after it


# --- optimizers ---


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
        """Do the same without side effects, for JAX: by way of ``apply``, but in a LossScaleOptimizer."""
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
    keras: ModuleType, optimizer: Any, name: str | None, device_dense: str, device_sparse: str, compression: Any,
    sparse_as_dense: bool, gradient_predivide_factor: float, op: int, backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False, groups: Any = None, process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:  # fmt: skip
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
        name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, groups,
        process_set, scale_local_gradients,
    )  # fmt: skip
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


def shared(variables: Sequence[Any]) -> list[Any]:
    """Return those that all ranks shall have alike: not what an optimizer here adds up over several passes."""
    return [variable for variable in variables if not getattr(variable, "_is_ranks_own", False)]


def variables_of(optimizer: Any) -> list[Any]:
    """Return an optimizer's variables: in Keras 2 some have a method for it."""
    return list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Make an optimizer's variables, which the first step does else."""
    getattr(optimizer, "_create_all_weights", optimizer.build)(list(variables))


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


# --- plain values ---


def allreduce(
    keras: ModuleType, value: Any, name: str | None, average: bool | None, prescale_factor: float,
    postscale_factor: float, op: int | None, compression: Any,
) -> Any:  # fmt: skip
    """Reduce a value over all ranks, and return it as :meth:`Values.broadcast` does."""
    framework = framework_of(keras)
    reduced = framework.hvd.allreduce(
        framework.tensor(value), average=average, name=name, op=op, prescale_factor=prescale_factor,
        postscale_factor=postscale_factor, compression=compression,
    )  # fmt: skip
    return framework.evaluate(reduced)


note_raises = raises("""
    HorovodInternalError; on TensorFlow tf.errors.FailedPreconditionError, tf.errors.AbortedError or \
tf.errors.InvalidArgumentError
        On all ranks: they disagreed (the text names them and the difference), a peer failed, or Horovod was shut down.
        As of the framework's own function: :func:`horovod.tensorflow.allreduce`, for one.
    ValueError
        For an argument that this rank can tell is wrong. Before :func:`init` it is one of these.
""")


class Values:
    """The common part of ``horovod.keras`` and ``horovod.tensorflow.keras``: collectives on plain values."""

    def __init__(self, keras: ModuleType, distribute: Callable[..., Any]) -> None:
        self._keras = keras
        self._distribute = distribute

    def load_model(
        self,
        filepath: Any,
        custom_optimizers: Any = None,
        custom_objects: Any = None,
        compression: Any = None,
        legacy_opts: bool = False,
    ) -> Any:
        """Load a model whose optimizer is a ``DistributedOptimizer`` afterwards, with the state that was saved.

        Parameters
        ----------
        filepath : str
            What ``model.save`` wrote.
        custom_optimizers : list of classes, optional
            Optimizers that are not Keras' own.
        custom_objects : dict, optional
            As ``keras.models.load_model`` takes it.
        compression : Compressor, optional
            Of the optimizer.
        legacy_opts : bool
            For Horovod's programs: whatever was saved is loaded.
        """
        custom = {cls.__name__: cls for cls in custom_optimizers or ()}
        model = self._keras.models.load_model(filepath, custom_objects={**custom, **(custom_objects or {})})
        loaded = getattr(model, "optimizer", None)
        if loaded is not None:
            model.optimizer = self._distribute(loaded, **({"compression": compression} if compression else {}))
            if is_keras_2(self._keras):
                build(model.optimizer, model.trainable_variables)
                for ours, theirs in zip(variables_of(model.optimizer), variables_of(loaded)):
                    ours.assign(theirs)
        return model

    def PartialDistributedOptimizer(  # noqa: N802 (Horovod's name)
        self, optimizer: Any, name: str | None = None, device_dense: str = "", device_sparse: str = "",
        compression: Any = None, sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
        op: int = Average, backward_passes_per_step: int = 1, average_aggregated_gradients: bool = False,
        groups: Any = None, process_set: ProcessSet = global_process_set, local_layers: Any = None,
        scale_local_gradients: bool = True,
    ) -> Any:  # fmt: skip
        """Return a :func:`DistributedOptimizer` that leaves the gradients of some layers as they are on every rank.

        Parameters
        ----------
        local_layers : keras.layers.Layer or list of these, optional
            Built. ``BroadcastGlobalVariablesCallback`` takes their variables as `local_variables`.
        scale_local_gradients : bool
            Whether their gradients are divided by the number of ranks, so that the learning rate fits both.
        backward_passes_per_step : int
            How many passes are added up before they are reduced and applied: Keras' `gradient_accumulation_steps`.
        average_aggregated_gradients : bool
            Whether their average is applied instead of their sum.
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op, \
groups, process_set
            As in :func:`DistributedOptimizer`.
        """
        keras = keras_of(optimizer, self._keras)
        compression = compression or framework_of(keras).hvd.Compression.none
        distributed = create_distributed_optimizer(
            keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
            gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients, groups,
            process_set, scale_local_gradients,
        )  # fmt: skip
        register_local_layers(keras, distributed, local_layers)
        return distributed

    def broadcast_global_variables(self, root_rank: int) -> None:
        """Give all ranks the root's global variables: in a session of Keras 2; RuntimeError without sessions."""
        framework_of(self._keras).broadcast_global_variables(root_rank)

    @note_raises
    def allgather(self, value: Any, name: str | None = None) -> Any:
        """Concatenate the arrays of all ranks along the first dimension.

        Parameters
        ----------
        value : array or tensor
            With at least one dimension. The first may differ between ranks and may be zero; the others and the dtype
            are the same on all ranks.
        name : str, optional
            The name by which the ranks match.

        Returns
        -------
        array
            As :func:`broadcast` returns it: the rows of rank 0, 1, …, of shape ``(sum of the ranks' rows, ...)``, with
            the dtype of `value`.
        """
        framework = framework_of(self._keras)
        return framework.evaluate(framework.hvd.allgather(framework.tensor(value), name=name))

    @note_raises
    def broadcast(self, value: Any, root_rank: int, name: str | None = None) -> Any:
        """Return the root's number or array on all ranks.

        Parameters
        ----------
        value : number, array or tensor
            The same shape and dtype on all ranks.
        root_rank : int
            Rank of the sender.
        name : str, optional
            The name by which the ranks match.

        Returns
        -------
        array
            A tensor in TensorFlow's eager mode, else NumPy's, with the shape and dtype of `value`.
        """
        framework = framework_of(self._keras)
        return framework.evaluate(framework.hvd.broadcast(framework.tensor(value), root_rank, name=name))

    @note_raises
    def reduce(self, value: Any, root_rank: int, name: str | None = None, op: int = Average) -> Any:
        """Reduce a number or an array over all ranks; the root alone gets the result.

        Parameters
        ----------
        value, root_rank, name
            As in :func:`broadcast`.
        op : int
            ``Average``, ``Sum``, ``Min``, ``Max`` or ``Product``.

        Returns
        -------
        array or None
            On the root, of the shape and dtype of `value`, as :func:`broadcast` returns it; None on the other ranks.
        """
        framework = framework_of(self._keras)
        reduced = framework.hvd.reduce(framework.tensor(value), root_rank, name=name, op=op)
        result = None if reduced is None else framework.evaluate(reduced)  # in a graph on all ranks
        return result if framework.hvd.rank() == root_rank else None

    @note_raises
    def reducescatter(self, value: Any, name: str | None = None, op: int = Average) -> Any:
        """Reduce an array over all ranks and return this rank's rows.

        Parameters
        ----------
        value : array or tensor
            With at least one dimension, the same shape and dtype on all ranks. The first ``shape[0] % size`` ranks get
            one row more.
        name : str, optional
            The name by which the ranks match.
        op : int
            ``Average`` or ``Sum``.

        Returns
        -------
        array
            As :func:`broadcast` returns it: this rank's rows, with the dtype of `value`.
        """
        framework = framework_of(self._keras)
        return framework.evaluate(framework.hvd.reducescatter(framework.tensor(value), name=name, op=op))
