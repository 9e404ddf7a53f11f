"""Horovod for TensorFlow. ``import horovod.tensorflow as hvd``."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("tensorflow", "horovod.tensorflow")

from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.process_sets import ProcessSet as ProcessSet
from horovod.common.process_sets import get_process_set_ids_and_ranks as get_process_set_ids_and_ranks
from horovod.common.process_sets import global_process_set as global_process_set
from horovod.tensorflow import elastic as elastic
from horovod.tensorflow._optimizer import BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook
from horovod.tensorflow._optimizer import DistributedOptimizer as DistributedOptimizer
from horovod.tensorflow._optimizer import broadcast_global_variables as broadcast_global_variables
from horovod.tensorflow._reduce import allreduce as allreduce
from horovod.tensorflow._reduce import grouped_allreduce as grouped_allreduce
from horovod.tensorflow._reduce import grouped_reducescatter as grouped_reducescatter
from horovod.tensorflow._reduce import reducescatter as reducescatter
from horovod.tensorflow._tape import DistributedGradientTape as DistributedGradientTape
from horovod.tensorflow._tape import PartialDistributedGradientTape as PartialDistributedGradientTape
from horovod.tensorflow.compression import Compression as Compression
from horovod.tensorflow.functions import allgather_object as allgather_object
from horovod.tensorflow.functions import broadcast_object as broadcast_object
from horovod.tensorflow.functions import broadcast_object_fn as broadcast_object_fn
from horovod.tensorflow.functions import broadcast_variables as broadcast_variables
from horovod.tensorflow.mpi_ops import Adasum as Adasum
from horovod.tensorflow.mpi_ops import Average as Average
from horovod.tensorflow.mpi_ops import Max as Max
from horovod.tensorflow.mpi_ops import Min as Min
from horovod.tensorflow.mpi_ops import Product as Product
from horovod.tensorflow.mpi_ops import Sum as Sum
from horovod.tensorflow.mpi_ops import add_process_set as add_process_set
from horovod.tensorflow.mpi_ops import allgather as allgather
from horovod.tensorflow.mpi_ops import alltoall as alltoall
from horovod.tensorflow.mpi_ops import broadcast as broadcast
from horovod.tensorflow.mpi_ops import broadcast_ as broadcast_
from horovod.tensorflow.mpi_ops import ccl_built as ccl_built
from horovod.tensorflow.mpi_ops import check_num_rank_power_of_2 as check_num_rank_power_of_2
from horovod.tensorflow.mpi_ops import cross_rank as cross_rank
from horovod.tensorflow.mpi_ops import cross_size as cross_size
from horovod.tensorflow.mpi_ops import cuda_built as cuda_built
from horovod.tensorflow.mpi_ops import ddl_built as ddl_built
from horovod.tensorflow.mpi_ops import gloo_built as gloo_built
from horovod.tensorflow.mpi_ops import gloo_enabled as gloo_enabled
from horovod.tensorflow.mpi_ops import gpu_available as gpu_available
from horovod.tensorflow.mpi_ops import grouped_allgather as grouped_allgather
from horovod.tensorflow.mpi_ops import grouped_broadcast as grouped_broadcast
from horovod.tensorflow.mpi_ops import handle_average_backwards_compatibility as handle_average_backwards_compatibility
from horovod.tensorflow.mpi_ops import init as init
from horovod.tensorflow.mpi_ops import is_homogeneous as is_homogeneous
from horovod.tensorflow.mpi_ops import is_initialized as is_initialized
from horovod.tensorflow.mpi_ops import join as join
from horovod.tensorflow.mpi_ops import local_rank as local_rank
from horovod.tensorflow.mpi_ops import local_rank_op as local_rank_op
from horovod.tensorflow.mpi_ops import local_size as local_size
from horovod.tensorflow.mpi_ops import local_size_op as local_size_op
from horovod.tensorflow.mpi_ops import mpi_built as mpi_built
from horovod.tensorflow.mpi_ops import mpi_enabled as mpi_enabled
from horovod.tensorflow.mpi_ops import mpi_threads_supported as mpi_threads_supported
from horovod.tensorflow.mpi_ops import nccl_built as nccl_built
from horovod.tensorflow.mpi_ops import process_set_included_op as process_set_included_op
from horovod.tensorflow.mpi_ops import rank as rank
from horovod.tensorflow.mpi_ops import rank_op as rank_op
from horovod.tensorflow.mpi_ops import remove_process_set as remove_process_set
from horovod.tensorflow.mpi_ops import rocm_built as rocm_built
from horovod.tensorflow.mpi_ops import shutdown as shutdown
from horovod.tensorflow.mpi_ops import size as size
from horovod.tensorflow.mpi_ops import size_op as size_op
from horovod.tensorflow.mpi_ops import start_timeline as start_timeline
from horovod.tensorflow.mpi_ops import stop_timeline as stop_timeline
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization
