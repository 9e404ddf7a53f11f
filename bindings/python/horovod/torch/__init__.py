"""Horovod for PyTorch. ``import horovod.torch as hvd``."""

from __future__ import annotations

import warnings

from horovod.common.util import check_extension as check_extension, interface, require_framework

require_framework("torch", "horovod.torch")

try:
    from horovod import _roda as _roda
except ImportError as _error:  # the package stays importable without its engine
    warnings.warn(f"horovod.torch is not usable. {_error}", stacklevel=2)
else:
    from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
    from horovod.common.life_cycle import *  # noqa: F403
    from horovod.common.process_sets import (
        ProcessSet as ProcessSet,
        add_process_set as add_process_set,
        get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
        global_process_set as global_process_set,
        remove_process_set as remove_process_set,
    )
    from horovod.torch import (
        _reduce as _reduce,
        distributed as distributed,
        elastic as elastic,
    )
    from horovod.torch._compile import keep_tracer_out as _keep_tracer_out
    from horovod.torch.compression import Compression as Compression
    from horovod.torch.functions import (
        allgather_object as allgather_object,
        broadcast_object as broadcast_object,
        broadcast_optimizer_state as broadcast_optimizer_state,
        broadcast_parameters as broadcast_parameters,
    )
    from horovod.torch.mpi_ops import (
        Adasum as Adasum,
        Average as Average,
        Max as Max,
        Min as Min,
        Product as Product,
        Sum as Sum,
        allgather as allgather,
        allgather_async as allgather_async,
        allreduce as allreduce,
        allreduce_ as allreduce_,
        allreduce_async as allreduce_async,
        allreduce_async_ as allreduce_async_,
        alltoall as alltoall,
        alltoall_async as alltoall_async,
        barrier as barrier,
        broadcast as broadcast,
        broadcast_ as broadcast_,
        broadcast_async as broadcast_async,
        broadcast_async_ as broadcast_async_,
        grouped_allgather as grouped_allgather,
        grouped_allgather_async as grouped_allgather_async,
        grouped_allreduce as grouped_allreduce,
        grouped_allreduce_ as grouped_allreduce_,
        grouped_allreduce_async as grouped_allreduce_async,
        grouped_allreduce_async_ as grouped_allreduce_async_,
        grouped_reducescatter as grouped_reducescatter,
        grouped_reducescatter_async as grouped_reducescatter_async,
        join as join,
        poll as poll,
        reduce as reduce,
        reduce_ as reduce_,
        reduce_async as reduce_async,
        reduce_async_ as reduce_async_,
        reducescatter as reducescatter,
        reducescatter_async as reducescatter_async,
        sparse_allreduce_async as sparse_allreduce_async,
        synchronize as synchronize,
    )
    from horovod.torch.optimizer import DistributedOptimizer as DistributedOptimizer
    from horovod.torch.sync_batch_norm import SyncBatchNorm as SyncBatchNorm

    distributed.register()
    _keep_tracer_out()

    __all__, __dir__ = interface(globals(), "distributed", *_reduce.__all__)
