"""Horovod for JAX. ``import horovod.jax as hvd``."""

from __future__ import annotations

from horovod.common.util import interface, require_framework

require_framework("jax", "horovod.jax")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.process_sets import (
    ProcessSet as ProcessSet,
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
    global_process_set as global_process_set,
)
from horovod.jax import elastic as elastic
from horovod.jax._arrays import CollectiveError as CollectiveError
from horovod.jax._optimizer import DistributedOptimizer as DistributedOptimizer, distributed as distributed
from horovod.jax.compression import Compression as Compression
from horovod.jax.functions import (
    allgather_object as allgather_object,
    broadcast_object as broadcast_object,
    broadcast_parameters as broadcast_parameters,
)
from horovod.jax.mpi_ops import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
    add_process_set as add_process_set,
    allgather as allgather,
    allreduce as allreduce,
    alltoall as alltoall,
    barrier as barrier,
    broadcast as broadcast,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_reducescatter as grouped_reducescatter,
    join as join,
    reduce as reduce,
    reducescatter as reducescatter,
    remove_process_set as remove_process_set,
)

__all__, __dir__ = interface(globals(), "distributed", "reduce")
