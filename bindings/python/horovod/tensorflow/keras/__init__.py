"""Horovod for TensorFlow's Keras, 3 or 2. ``import horovod.tensorflow.keras as hvd``."""

from tensorflow import keras

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
from horovod.common.util import interface
from horovod.tensorflow.compression import Compression as Compression
from horovod.tensorflow.keras import callbacks as callbacks, elastic as elastic

_front = _Front(__name__, keras, Compression)
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
