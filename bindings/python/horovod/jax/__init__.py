"""Horovod for JAX. ``import horovod.jax as hvd``."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("jax", "horovod.jax")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
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
    ccl_built as ccl_built,
    cross_rank as cross_rank,
    cross_size as cross_size,
    cuda_built as cuda_built,
    ddl_built as ddl_built,
    gloo_built as gloo_built,
    gloo_enabled as gloo_enabled,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_reducescatter as grouped_reducescatter,
    init as init,
    is_homogeneous as is_homogeneous,
    is_initialized as is_initialized,
    join as join,
    local_rank as local_rank,
    local_size as local_size,
    mpi_built as mpi_built,
    mpi_enabled as mpi_enabled,
    mpi_threads_supported as mpi_threads_supported,
    nccl_built as nccl_built,
    rank as rank,
    reducescatter as reducescatter,
    remove_process_set as remove_process_set,
    rocm_built as rocm_built,
    shutdown as shutdown,
    size as size,
    start_timeline as start_timeline,
    stop_timeline as stop_timeline,
)
