"""Horovod for MXNet. ``import horovod.mxnet as hvd``."""

from __future__ import annotations

from horovod.common.util import check_extension as check_extension, interface, require_framework

require_framework("mxnet", "horovod.mxnet")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.process_sets import (
    ProcessSet as ProcessSet,
    add_process_set as add_process_set,
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
    global_process_set as global_process_set,
    remove_process_set as remove_process_set,
)
from horovod.mxnet.compression import Compression as Compression
from horovod.mxnet.functions import (
    allgather_object as allgather_object,
    broadcast_object as broadcast_object,
    broadcast_parameters as broadcast_parameters,
)
from horovod.mxnet.mpi_ops import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
    allgather as allgather,
    allreduce as allreduce,
    allreduce_ as allreduce_,
    alltoall as alltoall,
    broadcast as broadcast,
    broadcast_ as broadcast_,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_allreduce_ as grouped_allreduce_,
    grouped_reducescatter as grouped_reducescatter,
    reduce as reduce,
    reducescatter as reducescatter,
)
from horovod.mxnet.optimizer import (
    DistributedOptimizer as DistributedOptimizer,
    DistributedTrainer as DistributedTrainer,
)
from horovod.version import __version__ as __version__

__all__, __dir__ = interface(globals(), "reduce")
