"""What :class:`HorovodBasics` has, as the functions that every framework's module exports."""

from horovod.common.basics import HorovodBasics

basics = HorovodBasics()

ccl_built = basics.ccl_built
cross_rank = basics.cross_rank
cross_size = basics.cross_size
cuda_built = basics.cuda_built
ddl_built = basics.ddl_built
gloo_built = basics.gloo_built
gloo_enabled = basics.gloo_enabled
init = basics.init
is_homogeneous = basics.is_homogeneous
is_initialized = basics.is_initialized
local_rank = basics.local_rank
local_size = basics.local_size
mpi_built = basics.mpi_built
mpi_enabled = basics.mpi_enabled
mpi_threads_supported = basics.mpi_threads_supported
nccl_built = basics.nccl_built
on_straggler = basics.on_straggler
rank = basics.rank
reset_wire_residuals = basics.reset_wire_residuals
rocm_built = basics.rocm_built
shutdown = basics.shutdown
size = basics.size
start_timeline = basics.start_timeline
stop_timeline = basics.stop_timeline

__all__ = [
    "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "init",
    "is_homogeneous", "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported",
    "nccl_built", "on_straggler", "rank", "reset_wire_residuals", "rocm_built", "shutdown", "size", "start_timeline",
    "stop_timeline",
]  # fmt: skip
