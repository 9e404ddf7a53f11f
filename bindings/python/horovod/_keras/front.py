"""The factory of ``horovod.keras`` and ``horovod.tensorflow.keras``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, TypeVar

from horovod._keras.backend import framework_of, is_keras_2, keras_of
from horovod._keras.optimizer import create_distributed_optimizer, register_local_layers
from horovod._keras.values import Values
from horovod._keras.variables import build, variables_of
from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set

_F = TypeVar("_F", bound=Callable[..., Any])


def restated(function: _F, module: str, by_keyword: Collection[str] = (), **defaults: Any) -> _F:
    """Return a module's function with defaults of its own, whose parameters in `by_keyword` are given by that alone."""
    stated = inspect.signature(function)
    parameters = [
        each.replace(
            default=defaults.get(each.name, each.default),
            kind=each.KEYWORD_ONLY if each.name in by_keyword else each.kind,
        )
        for each in stated.parameters.values()
    ]
    signature = stated.replace(parameters=sorted(parameters, key=lambda each: each.kind))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}") from None
        given.apply_defaults()
        return function(**given.arguments)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__module__, call.__qualname__ = module, function.__name__  # where pickle finds it
    return call  # type: ignore[return-value]


class Front(Values):
    """The functions of a public module.

    Parameters
    ----------
    module : str
        The public module's name.
    keras : module
        The Keras whose optimizers and models they take.
    compression : type
        The framework's ``Compression``; no compression is the default everywhere.
    average : bool, optional
        The default of ``allreduce``'s `average`. With None the argument is deprecated.
    by_keyword : collection of str
        Which arguments of ``DistributedOptimizer`` are given by keyword alone.
    """

    def __init__(
        self,
        module: str,
        keras: ModuleType,
        compression: Any,
        average: bool | None = None,
        by_keyword: Collection[str] = (),
    ) -> None:
        super().__init__(keras, average is not None)
        none = compression.none
        changes: dict[str, dict[str, Any]] = {
            "allreduce": {"average": average, "compression": none},
            "DistributedOptimizer": {"by_keyword": by_keyword, "compression": none},
            "PartialDistributedOptimizer": {"compression": none},
            "load_model": {"compression": none},
        }
        for name, how in changes.items():
            setattr(self, name, restated(getattr(self, name), module, **how))

    def DistributedOptimizer(  # noqa: N802 (Horovod's name)
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = None,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: int = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        num_groups: int = 0,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> Any:
        """Return an optimizer that applies gradients which are reduced over the ranks.

        Parameters
        ----------
        optimizer : keras.optimizers.Optimizer
            The optimizer that applies the gradients; its state is taken over.
        name : str, optional
            Prefix of the names of the new optimizer's ops.
        device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups, \
process_set, scale_local_gradients
            As in :func:`horovod.tensorflow.DistributedGradientTape`; `op` is ``Average`` or ``Sum``.
        backward_passes_per_step : int
            How many passes are added up before they are reduced and applied: Keras 3's `gradient_accumulation_steps`.
        average_aggregated_gradients : bool
            Whether the average of those passes is applied instead of their sum.

        Returns
        -------
        keras.optimizers.Optimizer
            An optimizer whose class is derived from the given one's, and has its name: saved models load without
            Horovod.
        """
        return create_distributed_optimizer(
            self._keras,
            optimizer,
            name,
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            gradient_predivide_factor,
            op,
            backward_passes_per_step,
            average_aggregated_gradients,
            (num_groups or None) if groups is None else groups,
            process_set,
            scale_local_gradients,
        )

    def PartialDistributedOptimizer(  # noqa: N802 (Horovod's name)
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = None,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: int = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        local_layers: Any = None,
        scale_local_gradients: bool = True,
    ) -> Any:
        """Return a :func:`DistributedOptimizer` that leaves the gradients of some layers as they are on every rank.

        Parameters
        ----------
        local_layers : keras.layers.Layer or list of these, optional
            These layers are built. ``BroadcastGlobalVariablesCallback`` takes their variables as `local_variables`.
        scale_local_gradients : bool
            Whether those layers' gradients are divided by the number of ranks, so that the learning rate fits all.
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op, \
backward_passes_per_step, average_aggregated_gradients, groups, process_set
            As in :func:`DistributedOptimizer`.
        """
        distributed = create_distributed_optimizer(
            self._keras,
            optimizer,
            name,
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            gradient_predivide_factor,
            op,
            backward_passes_per_step,
            average_aggregated_gradients,
            groups,
            process_set,
            scale_local_gradients,
        )
        register_local_layers(keras_of(optimizer, self._keras), distributed, local_layers)
        return distributed

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
            The file that ``model.save`` wrote.
        custom_optimizers : list of classes, optional
            Optimizers that are not Keras' own.
        custom_objects : dict, optional
            As ``keras.models.load_model`` takes it.
        compression : Compressor, optional
            The optimizer's compression.
        legacy_opts : bool
            For Horovod's programs: whatever was saved is loaded.
        """
        custom = {cls.__name__: cls for cls in custom_optimizers or ()}
        model = self._keras.models.load_model(filepath, custom_objects={**custom, **(custom_objects or {})})
        loaded = getattr(model, "optimizer", None)
        if loaded is not None:
            model.optimizer = self.DistributedOptimizer(loaded, compression=compression)
            if is_keras_2(self._keras):
                build(model.optimizer, model.trainable_variables)
                for ours, theirs in zip(variables_of(model.optimizer), variables_of(loaded)):
                    ours.assign(theirs)
        return model

    def broadcast_global_variables(self, root_rank: int) -> None:
        """Give all ranks the root's global variables: in a session of Keras 2; RuntimeError without sessions."""
        framework_of(self._keras).broadcast_global_variables(root_rank)
