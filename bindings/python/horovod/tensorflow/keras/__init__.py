"""Horovod for TensorFlow's Keras, 3 or 2. ``import horovod.tensorflow.keras as hvd``."""

from __future__ import annotations

from typing import Any

from tensorflow import keras

from horovod import _keras
from horovod.common.basics import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
)
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.process_sets import (
    ProcessSet as ProcessSet,
    add_process_set as add_process_set,
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
    global_process_set as global_process_set,
    remove_process_set as remove_process_set,
)
from horovod.common.util import interface
from horovod.tensorflow.compression import Compression as Compression
from horovod.tensorflow.keras import callbacks as callbacks, elastic as elastic

_values = _keras.Values(keras, lambda *args, **more: DistributedOptimizer(*args, **more))
PartialDistributedOptimizer = _values.PartialDistributedOptimizer
allgather = _values.allgather
broadcast = _values.broadcast
broadcast_global_variables = _values.broadcast_global_variables
load_model = _values.load_model
reduce = _values.reduce
reducescatter = _values.reducescatter


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
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
        What applies them; its state is taken over.
    name : str, optional
        Of the new optimizer's ops.
    device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups, \
process_set, scale_local_gradients
        As in :func:`horovod.tensorflow.DistributedGradientTape`; `op` is ``Average`` or ``Sum``.
    backward_passes_per_step : int
        How many passes are added up before they are reduced and applied: Keras 3's `gradient_accumulation_steps`.
    average_aggregated_gradients : bool
        Whether their average is applied instead of their sum.

    Returns
    -------
    keras.optimizers.Optimizer
        Of a subclass of the given one's class, which has the same name: saved models load without Horovod.
    """
    return _keras.create_distributed_optimizer(
        keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor,
        op, backward_passes_per_step, average_aggregated_gradients, num_groups or None if groups is None else groups,
        process_set, scale_local_gradients,
    )  # fmt: skip


@_keras.note_raises
def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduce a number or an array over all ranks.

    Parameters
    ----------
    value : number, array or tensor
        The same shape and dtype on all ranks.
    name : str, optional
        The name by which the ranks match.
    average : bool, optional
        Deprecated: True for ``op=Average``, False for ``op=Sum``.
    prescale_factor, postscale_factor : float
        Applied to every rank's input, and to the result.
    op : int, optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
    compression : Compressor
        Applied to what travels.

    Returns
    -------
    array
        A tensor in TensorFlow's eager mode, else NumPy's, with the shape and dtype of `value`.
    """
    return _keras.allreduce(keras, value, name, average, prescale_factor, postscale_factor, op, compression)


__all__, __dir__ = interface(globals(), "reduce")
