"""Horovod for Keras on TensorFlow, PyTorch or JAX. ``import horovod.keras as hvd``."""

from horovod.common.util import interface, require_framework

require_framework("keras", "horovod.keras")

import keras

from horovod._keras.backend import framework_of as _framework_of
from horovod._keras.front import Front as _Front
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
from horovod.keras import callbacks as callbacks, elastic as elastic

Compression = _framework_of(keras).hvd.Compression

_HOROVOD_LACKS_HERE = (
    "backward_passes_per_step",
    "average_aggregated_gradients",
    "process_set",
    "scale_local_gradients",
)
_front = _Front(__name__, keras, Compression, average=True, by_keyword=_HOROVOD_LACKS_HERE)
DistributedOptimizer = _front.DistributedOptimizer
PartialDistributedOptimizer = _front.PartialDistributedOptimizer
allgather = _front.allgather
allreduce = _front.allreduce
broadcast = _front.broadcast
broadcast_global_variables = _front.broadcast_global_variables
load_model = _front.load_model
reduce = _front.reduce
reducescatter = _front.reducescatter

__all__, __dir__ = interface(globals(), "reduce")
