"""Gradient tapes whose gradients are reduced over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import GradientReducer, check_groups
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import Average


class _DistributedGradientTape:
    """Goes before the class of a tape, and shares that tape's state."""

    _reducer: GradientReducer

    def register_local_source(self, source: Any) -> None:
        """Leave the gradients of a variable as they are on every rank."""
        self._reducer.register_local(source)

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False, **kwargs: Any
    ) -> Any:
        """Return the reduced gradients, in the structure of `sources`.

        Parameters
        ----------
        target, sources, output_gradients, **kwargs
            As in ``tf.GradientTape.gradient``.
        use_generic_names : bool
            Whether the ranks match gradients by their places instead of by names.
        """
        gradients = super().gradient(target, sources, output_gradients, **kwargs)  # type: ignore[misc]
        flat = tf.nest.flatten(gradients, expand_composites=False)
        reduced = self._reducer.reduce(flat, tf.nest.flatten(sources), use_generic_names)
        return tf.nest.pack_sequence_as(gradients, reduced, expand_composites=False)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return pairs of variable and gradient: those of local sources, and the reduced ones of the others."""
        gradients = tf.nest.flatten(self.gradient(target, sources, output_gradients, use_generic_names))
        pairs = list(zip(tf.nest.flatten(sources), gradients))
        local = [pair for pair in pairs if self._reducer.is_local(pair[0])]
        return local, [pair for pair in pairs if not self._reducer.is_local(pair[0])]


def DistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | list[list[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a tape like `gradtape` whose ``gradient`` reduces over the ranks.

    Parameters
    ----------
    gradtape : tf.GradientTape
        What it has recorded is there in the new one.
    device_dense, device_sparse : str
        Where ops are to be placed.
    compression : Compressor
        Applied to what travels.
    sparse_as_dense : bool
        Whether ``IndexedSlices`` become dense tensors first.
    op : int
        ``Average`` (default), ``Sum`` or ``Adasum``.
    gradient_predivide_factor : float
        With ``Average``: divides the gradients before they are added up.
    num_groups, groups
        How many groups of gradients travel together, or lists of the variables of each.
    process_set : ProcessSet
        Who takes part.
    scale_local_gradients : bool
        Whether gradients of local sources are divided by the number of ranks.
    """
    base = type(gradtape)
    tape: Any = type(base.__name__, (_DistributedGradientTape, base), {})
    distributed = tape.__new__(tape)
    vars(distributed).update(vars(gradtape))
    distributed._reducer = GradientReducer(
        "DistributedGradientTape", device_dense, device_sparse, compression, sparse_as_dense, op,
        gradient_predivide_factor, check_groups(num_groups, groups), process_set, scale_local_gradients,
    )  # fmt: skip
    return distributed


def PartialDistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | list[list[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any | Sequence[Any] | None = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a tape as :func:`DistributedGradientTape` does; the weights of `local_layers` are every rank's own."""
    layers = [] if local_layers is None else local_layers
    layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
    if not all(isinstance(layer, tf.keras.layers.Layer) for layer in layers):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    distributed = DistributedGradientTape(
        gradtape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
        num_groups, groups, process_set, scale_local_gradients,
    )  # fmt: skip
    for layer in layers:
        for variable in layer.trainable_weights:
            distributed.register_local_source(variable)
    return distributed
