"""Horovod for PyTorch. ``import horovod.torch as hvd``."""

from __future__ import annotations

import warnings

from horovod.common.util import require_framework

require_framework("torch", "horovod.torch")

try:
    from horovod import _roda as _roda
except ImportError as _error:  # the package stays importable without its engine
    warnings.warn(f"horovod.torch is not usable: the engine could not be loaded ({_error}).", stacklevel=2)
else:
    from horovod.common.exceptions import HorovodInternalError
    from horovod.common.process_sets import (
        ProcessSet,
        add_process_set,
        get_process_set_ids_and_ranks,
        global_process_set,
        remove_process_set,
    )
    from horovod.torch import distributed, elastic
    from horovod.torch.compression import Compression
    from horovod.torch.functions import (
        allgather_object,
        broadcast_object,
        broadcast_optimizer_state,
        broadcast_parameters,
    )
    from horovod.torch.mpi_ops import (
        Adasum,
        Average,
        Max,
        Min,
        Product,
        Sum,
        allgather,
        allgather_async,
        allreduce,
        allreduce_,
        allreduce_async,
        allreduce_async_,
        alltoall,
        alltoall_async,
        barrier,
        broadcast,
        broadcast_,
        broadcast_async,
        broadcast_async_,
        ccl_built,
        cross_rank,
        cross_size,
        cuda_built,
        ddl_built,
        gloo_built,
        gloo_enabled,
        grouped_allgather,
        grouped_allgather_async,
        grouped_allreduce,
        grouped_allreduce_,
        grouped_allreduce_async,
        grouped_allreduce_async_,
        grouped_reducescatter,
        grouped_reducescatter_async,
        init,
        is_homogeneous,
        is_initialized,
        join,
        local_rank,
        local_size,
        mpi_built,
        mpi_enabled,
        mpi_threads_supported,
        nccl_built,
        poll,
        rank,
        reduce,
        reduce_,
        reduce_async,
        reduce_async_,
        reducescatter,
        reducescatter_async,
        rocm_built,
        shutdown,
        size,
        sparse_allreduce_async,
        start_timeline,
        stop_timeline,
        synchronize,
    )
    from horovod.torch.optimizer import DistributedOptimizer
    from horovod.torch.sync_batch_norm import SyncBatchNorm

    distributed.register()

    __all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "warnings")]
