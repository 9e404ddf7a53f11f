"""Horovod for TensorFlow. ``import horovod.tensorflow as hvd``."""

from __future__ import annotations

from horovod.common.util import check_extension as check_extension, interface, require_framework

require_framework("tensorflow", "horovod.tensorflow")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.life_cycle import *  # noqa: F403
from horovod.common.process_sets import (
    ProcessSet as ProcessSet,
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
    global_process_set as global_process_set,
)
from horovod.tensorflow import elastic as elastic
from horovod.tensorflow._optimizer import (
    BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook,
    DistributedOptimizer as DistributedOptimizer,
    _DistributedOptimizer as _DistributedOptimizer,
    _LegacyOptimizer as _LegacyOptimizer,
    _make_allreduce_grads_fn as _make_allreduce_grads_fn,
    broadcast_global_variables as broadcast_global_variables,
)
from horovod.tensorflow._reduce import (
    allreduce as allreduce,
    grouped_allreduce as grouped_allreduce,
    grouped_reducescatter as grouped_reducescatter,
    reducescatter as reducescatter,
)
from horovod.tensorflow._tape import (
    DistributedGradientTape as DistributedGradientTape,
    PartialDistributedGradientTape as PartialDistributedGradientTape,
)
from horovod.tensorflow.compression import Compression as Compression
from horovod.tensorflow.functions import (
    allgather_object as allgather_object,
    broadcast_object as broadcast_object,
    broadcast_object_fn as broadcast_object_fn,
    broadcast_variables as broadcast_variables,
)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper as LocalGradientAggregationHelper
from horovod.tensorflow.mpi_ops import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
    _allreduce as _allreduce,
    add_process_set as add_process_set,
    allgather as allgather,
    alltoall as alltoall,
    broadcast as broadcast,
    broadcast_ as broadcast_,
    check_num_rank_power_of_2 as check_num_rank_power_of_2,
    gpu_available as gpu_available,
    grouped_allgather as grouped_allgather,
    grouped_broadcast as grouped_broadcast,
    handle_average_backwards_compatibility as handle_average_backwards_compatibility,
    join as join,
    local_rank_op as local_rank_op,
    local_size_op as local_size_op,
    process_set_included_op as process_set_included_op,
    rank_op as rank_op,
    reduce as reduce,
    remove_process_set as remove_process_set,
    size_op as size_op,
)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization
from horovod.tensorflow.util import _executing_eagerly as _executing_eagerly

__all__, __dir__ = interface(globals(), "reduce")
