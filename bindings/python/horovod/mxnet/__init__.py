"""Horovod for MXNet. ``import horovod.mxnet as hvd``."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("mxnet", "horovod.mxnet")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
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
    ccl_built as ccl_built,
    cross_rank as cross_rank,
    cross_size as cross_size,
    cuda_built as cuda_built,
    ddl_built as ddl_built,
    gloo_built as gloo_built,
    gloo_enabled as gloo_enabled,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_allreduce_ as grouped_allreduce_,
    grouped_reducescatter as grouped_reducescatter,
    init as init,
    is_initialized as is_initialized,
    local_rank as local_rank,
    local_size as local_size,
    mpi_built as mpi_built,
    mpi_enabled as mpi_enabled,
    mpi_threads_supported as mpi_threads_supported,
    nccl_built as nccl_built,
    rank as rank,
    reducescatter as reducescatter,
    rocm_built as rocm_built,
    shutdown as shutdown,
    size as size,
    start_timeline as start_timeline,
    stop_timeline as stop_timeline,
)
from horovod.mxnet.optimizer import (
    DistributedOptimizer as DistributedOptimizer,
    DistributedTrainer as DistributedTrainer,
)
from horovod.version import __version__ as __version__
