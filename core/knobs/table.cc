#include "core/knobs/table.h"

namespace roda::knobs {
namespace {

using enum Form;
using enum Agreement;
using enum Reader;

constexpr Member kNoMember{};

// clang-format off
const Row kRows[] = {
  // --- who and where this process is
  {"HOROVOD_RANK", kInteger, nullptr, "", kFree, kCore, &Knobs::rank, "Rank of this process in the job.", 0},
  {"HOROVOD_SIZE", kInteger, nullptr, "", kSame, kCore, &Knobs::size, "Number of processes in the job.", 1},
  {"HOROVOD_LOCAL_RANK", kInteger, nullptr, "", kFree, kCore, &Knobs::local_rank, "Rank among the processes of this host.", 0},
  {"HOROVOD_LOCAL_SIZE", kInteger, nullptr, "", kFree, kCore, &Knobs::local_size, "Number of processes on this host.", 1},
  {"HOROVOD_CROSS_RANK", kInteger, nullptr, "", kFree, kCore, &Knobs::cross_rank, "Index of this host among those that have this local rank.", 0},
  {"HOROVOD_CROSS_SIZE", kInteger, nullptr, "", kFree, kCore, &Knobs::cross_size, "Number of hosts that have this local rank.", 1},
  {"HOROVOD_HOSTNAME", kText, "", "", kFree, kCore, &Knobs::hostname, "Name this host goes by; empty: the machine's own."},
  {"HOROVOD_GLOO_RENDEZVOUS_ADDR", kText, "", "", kFree, kCore, &Knobs::rendezvous_addr, "Address of the job's rendezvous; unset: a job of one process."},
  {"HOROVOD_GLOO_RENDEZVOUS_PORT", kInteger, "-1", "", kFree, kCore, &Knobs::rendezvous_port, "Port of the job's rendezvous.", -1, 65535},
  {"HOROVOD_RENDEZVOUS_ADDR", kText, nullptr, "", kFree, kCore, &Knobs::rendezvous_addr, "The same as HOROVOD_GLOO_RENDEZVOUS_ADDR, and wins over it."},
  {"HOROVOD_RENDEZVOUS_PORT", kInteger, nullptr, "", kFree, kCore, &Knobs::rendezvous_port, "The same as HOROVOD_GLOO_RENDEZVOUS_PORT, and wins over it.", -1, 65535},
  {"HOROVOD_SECRET_FILE", kText, "", "", kFree, kCore, &Knobs::secret_file, "File with the job's secret; must be readable by its owner alone."},
  {"HOROVOD_SECRET_FD", kInteger, "-1", "", kFree, kCore, &Knobs::secret_fd, "Descriptor of a pipe that the job's secret is read from, once.", -1},
  {"_HOROVOD_SECRET_KEY", kSecret, "", "base64", kFree, kCore, &Knobs::legacy_secret, "The job's secret itself; used only without the two above."},
  {"HOROVOD_SECRET_KEY", kSecret, nullptr, "", kFree, kNobody, kNoMember, "Not read; the real name has a leading underscore."},

  // --- negotiation and fusion
  {"HOROVOD_FUSION_THRESHOLD", kInteger, "134217728", "bytes", kSame, kCore, &Knobs::fusion_threshold, "Largest bucket of fused tensors; 0: no fusion. On GPUs a bucket waits for no more than 22 MiB unless this is set.", 0},
  {"HOROVOD_CYCLE_TIME", kNumber, nullptr, "ms", kFree, kCore, &Knobs::cycle_time_ms, "Longest time that a ready tensor waits for others to travel with; unset: none.", 0},
  {"HOROVOD_CACHE_CAPACITY", kInteger, "1024", "entries", kSame, kCore, &Knobs::cache_capacity, "How many tensors ranks agree on by number instead of by name; 0: none.", 0, 1 << 24},
  {"HOROVOD_OUTSTANDING_BUCKETS", kInteger, "2", "buckets", kSame, kCore, &Knobs::outstanding_buckets, "Buckets in host memory that are under way, per process set, before ready tensors are gathered for the next.", 1, 1024},
  {"HOROVOD_WIRE_RESIDUAL_BYTES", kInteger, "1073741824", "bytes", kSame, kCore, &Knobs::wire_residual_bytes, "Memory for what messages in int8 and int4 lose, which is added to what is sent next (error feedback); tensors that find no room go without. 0: none.", 0},
  {"HOROVOD_DISABLE_GROUP_FUSION", kFlag, "0", "", kSame, kCore, &Knobs::disable_group_fusion, "Tensors of a group travel only with that group."},
  {"HOROVOD_BATCH_D2D_MEMCOPIES", kFlagNonZero, "1", "", kSame, kNobody, kNoMember, "Copy many tensors by one kernel on devices; 0: not."},
  {"HOROVOD_DYNAMIC_PROCESS_SETS", kFlagNonZero, "0", "", kSame, kCore, &Knobs::dynamic_process_sets, "Process sets may be added and removed after init."},
  {"HOROVOD_ELASTIC", kFlag, "0", "", kSame, kCore, &Knobs::elastic, "The job may lose and gain processes; set by horovodrun."},
  {"HOROVOD_THREAD_AFFINITY", kText, "", "core ids", kFree, kCore, &Knobs::thread_affinity, "Cores of the engines' threads, by local rank, separated by commas; empty: any."},

  // --- what carries the data
  {"HOROVOD_CONTROLLER", kWord, "", "", kSame, kCore, &Knobs::controller, "How ranks find each other: gloo (our own rendezvous), or a plugin that can (mpi); empty: chosen."},
  {"HOROVOD_CPU_OPERATIONS", kWord, "", "", kSame, kCore, &Knobs::cpu_operations, "Transports for tensors in host memory, as shm+gloo; empty: chosen."},
  {"HOROVOD_GPU_OPERATIONS", kWord, "", "", kSame, kCore, &Knobs::gpu_operations, "Transports for tensors on devices, as nccl or nccl+mpi (nccl inside hosts, mpi between them); empty: chosen."},
  {"HOROVOD_GPU_ALLREDUCE", kWord, "", "", kSame, kCore, &Knobs::gpu_allreduce, "The same for allreduce alone."},
  {"HOROVOD_GPU_ALLGATHER", kWord, "", "", kSame, kCore, &Knobs::gpu_allgather, "The same for allgather alone."},
  {"HOROVOD_GPU_BROADCAST", kWord, "", "", kSame, kCore, &Knobs::gpu_broadcast, "The same for broadcast alone."},
  {"HOROVOD_GPU_ALLTOALL", kWord, "", "", kSame, kCore, &Knobs::gpu_alltoall, "The same for alltoall alone."},
  {"HOROVOD_GPU_REDUCESCATTER", kWord, "", "", kSame, kCore, &Knobs::gpu_reducescatter, "The same for reducescatter alone."},
  {"HOROVOD_SELECT", kText, "", "", kSame, kCore, &Knobs::select, "Rules that come before the built-in selection table, in its grammar; schedules = PATHS gives algorithms in files."},
  {"HOROVOD_WIRE_BOUND", kNumber, nullptr, "", kSame, kCore, &Knobs::wire_bound, "Plans whose wire formats are proved to make sums differ by more are refused; as a share of the sum, over the ranks, of the largest magnitudes of their blocks.", 0},
  {"RODA_TOPOLOGY_FILE", kText, "", "path", kSamePresence, kCore, &Knobs::topology_file, "Topology to use in place of what is discovered; it must agree with the job's hosts and ranks."},
  {"RODA_TOPOLOGY_DUMP_FILE", kText, "", "path", kFree, kCore, &Knobs::topology_dump_file, "Where rank 0 writes the job's topology at init, in the form that RODA_TOPOLOGY_FILE reads."},
  {"HOROVOD_PLUGIN_PATH", kText, "", "", kFree, kCore, &Knobs::plugin_path, "Folders searched for plugins first, separated by colons."},
  {"RODA_DETERMINISTIC", kFlag, "0", "", kSame, kCore, &Knobs::deterministic, "Reductions sum every element up in rank order: the same bits in every run, over every transport, fused or not."},
  {"HOROVOD_HIERARCHICAL_ALLREDUCE", kFlag, "0", "", kSame, kCore, &Knobs::hierarchical_allreduce, "Allreduce inside hosts, then between them."},
  {"HOROVOD_HIERARCHICAL_ALLGATHER", kFlag, "0", "", kSame, kCore, &Knobs::hierarchical_allgather, "Allgather inside hosts, then between them."},
  {"HOROVOD_TORUS_ALLREDUCE", kFlag, "0", "", kSame, kCore, &Knobs::torus_allreduce, "Allreduce over a two-dimensional torus: ranks in hosts, or hosts of one rank each in a rectangle."},
  {"RODA_LEVELS", kText, "", "", kSame, kCore, &Knobs::levels, "Levels that compositions go by, from the inside out: cache, numa, package, host, and NAME=N for N units of the level below; auto: what the topology tells. Empty: host."},
  {"HOROVOD_GLOO_IFACE", kText, "", "", kFree, kCore, &Knobs::network_interface, "Network interface of Gloo and of our own connections; empty: chosen."},
  {"HOROVOD_GLOO_TIMEOUT_SECONDS", kInteger, "30", "s", kFree, kCore, &Knobs::gloo_timeout_seconds, "Time for connecting, and for an operation without progress.", 1, 1 << 30},
  {"RODA_GPU_TIMEOUT_SECONDS", kNumber, "600", "s", kFree, kCore, &Knobs::gpu_timeout_seconds, "Time for a collective on GPUs without progress, once this rank's GPU has come to it: a peer's may still do earlier work.", 0.001, 1 << 30},
  {"HOROVOD_ABORT_TIMEOUT_SECONDS", kNumber, "10", "s", kFree, kCore, &Knobs::abort_timeout_seconds, "Time in which every pending operation has to end after a failure.", 0.001, 86400},
  {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", kInteger, "1073741824", "bytes", kFree, kNobody, kNoMember, "Largest MPI message of Adasum; here the transports choose it.", 1},
  {"HOROVOD_MPI_THREADS_DISABLE", kFlag, "0", "", kFree, kCore, &Knobs::mpi_threads_disable, "Let only one thread at a time call MPI."},
  {"HOROVOD_NUM_NCCL_STREAMS", kInteger, "1", "streams", kSame, kCore, &Knobs::num_nccl_streams, "Streams of each device that launches take in turn.", 1, 1024},
  {"HOROVOD_ENABLE_ASYNC_COMPLETION", kFlag, "0", "", kFree, kCore, &Knobs::enable_async_completion, "When operations on devices count as done: 1: once all work lies on the device's stream; 0: once the device has done it; unset: the former for those that ask for it, as horovod.torch's do."},
  {"HOROVOD_ENABLE_XLA_OPS", kFlag, "0", "", kSame, kNobody, kNoMember, "Register XLA's allreduce."},
  {"HOROVOD_DISABLE_NVTX_RANGES", kFlagNonZero, "0", "", kFree, kCore, kNoMember, "No NVTX ranges of horovod.torch under NVIDIA's profilers."},
  {"RODA_REPLACE_GLOO", kText, "0", "", kFree, kCore, kNoMember, "Anything but 0: groups of torch.distributed that ask for gloo run on the backend roda, under Gloo's name."},
  {"HOROVOD_CCL_CACHE", kFlagNonZero, "0", "", kFree, kNobody, kNoMember, "Operation cache of oneCCL."},

  // --- of tests: paths that small jobs would not take
  {"RODA_TEST_CONTROL_FAN_OUT", kInteger, "8", "hosts", kSame, kTest, &Knobs::control_fan_out, "Hosts that report to one host in the tree along which ranks agree.", 1, 1024},
  {"RODA_TEST_HIERARCHICAL_ADASUM", kFlag, "0", "", kSame, kTest, &Knobs::hierarchical_adasum, "Adasum in host memory averages inside hosts and works between them, as on GPUs."},
  {"RODA_TEST_CUDA_LIBRARY", kText, "", "path", kFree, kTest, kNoMember, "CUDA driver to open; empty: the system's."},
  {"RODA_TEST_CUDA_MEMORY_LIMIT", kInteger, "0", "bytes", kFree, kTest, kNoMember, "Memory that the cuda plugin hands out on each device; 0: all.", 0},

  // --- what is observed
  {"HOROVOD_TIMELINE", kText, "", "path", kSamePresence, kCore, &Knobs::timeline, "Timeline file, written by rank 0; with {rank} in its name by each rank. DYNAMIC: hvd.start_timeline names it later."},
  {"HOROVOD_TIMELINE_MARK_CYCLES", kFlag, "0", "", kFree, kCore, &Knobs::timeline_mark_cycles, "Mark in the timeline when the engine looked for ready tensors."},
  {"RODA_FLIGHT_FOLDER", kText, "", "path", kFree, kCore, &Knobs::flight_folder, "Folder into which a host's flight recorders are written when an error or horovodrun ends the job; empty: none."},
  {"HOROVOD_STALL_CHECK_DISABLE", kFlag, "0", "", kSame, kCore, &Knobs::stall_check_disable, "No report of stalled tensors."},
  {"HOROVOD_STALL_CHECK_TIME_SECONDS", kInteger, "60", "s", kFree, kCore, &Knobs::stall_check_seconds, "Wait after which a tensor counts as stalled.", 1, 1 << 30},
  {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", kInteger, "600", "s", kFree, kCore, &Knobs::stall_shutdown_seconds, "Wait after which a stall ends the job; 0: never. Below HOROVOD_STALL_CHECK_TIME_SECONDS it has no effect.", 0, 1 << 30},
  {"HOROVOD_LOG_LEVEL", kWord, "warning", "", kFree, kCore, &Knobs::log_level, "trace, debug, info, warning, error or fatal."},
  {"HOROVOD_LOG_HIDE_TIME", kFlag, "0", "", kFree, kCore, &Knobs::log_hide_time, "Log lines without the time."},
  {"HOROVOD_AUTOTUNE", kFlag, "0", "", kSame, kCore, &Knobs::autotune, "Look for better settings while running: fusion, cycle time, buckets under way, algorithms."},
  {"HOROVOD_AUTOTUNE_LOG", kText, "", "path", kFree, kCore, &Knobs::autotune_log, "CSV log of the tuning, written by rank 0. A later job like this one takes what the log says, and does not search."},
  {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", kInteger, "3", "samples", kSame, kCore, &Knobs::autotune_warmup, "Scores at the start of the tuning that are not counted.", 0, 1 << 30},
  {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", kInteger, "10", "steps", kSame, kCore, &Knobs::autotune_steps, "Steps in one sample; a score is the median of five.", 1, 1 << 30},
  {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", kInteger, "20", "samples", kFree, kCore, &Knobs::autotune_most, "Most scores in the search for fusion threshold and cycle time.", 0, 1 << 30},
  {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", kNumber, "0.8", "", kFree, kCore, &Knobs::autotune_noise, "Most noise that the search assumes, as a part of the scores' spread.", 0, 1},

  // --- read by the launcher
  {"HOROVOD_START_TIMEOUT", kInteger, "30", "s", kFree, kLauncher, kNoMember, "Time in which all hosts must be reached.", 1},
  {"HOROVOD_RSH_AGENT", kText, "", "", kFree, kLauncher, kNoMember, "Command that stands in for ssh: called with a host and a shell command."},
  {"HOROVOD_TERMINATION_GRACE_SECONDS", kNumber, "5", "s", kFree, kLauncher, kNoMember, "Time between SIGTERM and SIGKILL when a job is ended.", 0, 86400},
  {"HOROVOD_ELASTIC_TIMEOUT", kInteger, "600", "s", kFree, kLauncher, kNoMember, "Time in which an elastic job must have enough slots.", 1},
  {"HOROVOD_SPARK_START_TIMEOUT", kInteger, "600", "s", kFree, kLauncher, kNoMember, "Time for the tasks of a job on Spark to start.", 1},
  {"HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX", kText, "0", "", kFree, kLauncher, kNoMember, "Anything but 0: ranks on Spark see all GPUs, not only those it assigned."},
  {"HOROVOD_SPARK_WORK_DIR", kText, "", "path", kFree, kNobody, kNoMember, "Working folder of Spark tasks."},
  {"HOROVOD_SPARK_PYTHONPATH", kText, "", "paths", kFree, kNobody, kNoMember, "Put before sys.path in Spark tasks."},

  // --- of Horovod's build, known so that they raise no warning
  {"HOROVOD_WITH_TENSORFLOW", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITHOUT_TENSORFLOW", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITH_PYTORCH", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITHOUT_PYTORCH", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITH_MXNET", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITHOUT_MXNET", kText, "", "", kFree, kBuild, kNoMember, "Not needed: no binding compiles against a framework."},
  {"HOROVOD_WITH_MPI", kText, "", "", kFree, kBuild, kNoMember, "1: the build fails where it can't have this transport."},
  {"HOROVOD_WITHOUT_MPI", kText, "", "", kFree, kBuild, kNoMember, "1: the build leaves this transport out."},
  {"HOROVOD_WITH_GLOO", kText, "", "", kFree, kBuild, kNoMember, "1: the build fails where it can't have this transport."},
  {"HOROVOD_WITHOUT_GLOO", kText, "", "", kFree, kBuild, kNoMember, "1: the build leaves this transport out."},
  {"HOROVOD_WITH_NVTX", kText, "", "", kFree, kBuild, kNoMember, "Not needed: ranges are PyTorch's own."},
  {"HOROVOD_WITHOUT_NVTX", kText, "", "", kFree, kBuild, kNoMember, "Not needed: ranges are PyTorch's own."},
  {"HOROVOD_GPU", kText, "", "", kFree, kBuild, kNoMember, "Not needed: devices are found at run time."},
  {"HOROVOD_ALLOW_MIXED_GPU_IMPL", kText, "", "", kFree, kBuild, kNoMember, "Not needed: mixes are checked at run time."},
  {"HOROVOD_CUDA_HOME", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: CUDA is opened at run time."},
  {"HOROVOD_BUILD_CUDA_CC_LIST", kText, "", "", kFree, kBuild, kNoMember, "Not read: kernels are for capability 8.0 and newer."},
  {"HOROVOD_ROCM_HOME", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: ROCm is found at run time."},
  {"HOROVOD_NCCL_HOME", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: NCCL is opened at run time."},
  {"HOROVOD_NCCL_INCLUDE", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: NCCL is opened at run time."},
  {"HOROVOD_NCCL_LIB", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: NCCL is opened at run time."},
  {"HOROVOD_NCCL_LINK", kText, "", "", kFree, kBuild, kNoMember, "Not needed: NCCL is opened at run time."},
  {"HOROVOD_NVTX_INCLUDE", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: ranges are PyTorch's own."},
  {"HOROVOD_BUILD_ARCH_FLAGS", kText, "", "", kFree, kBuild, kNoMember, "Not needed: kernels are chosen by the CPU at run time."},
  {"HOROVOD_CMAKE", kText, "", "path", kFree, kBuild, kNoMember, "Not needed: the build uses Meson."},
  {"HOROVOD_DEBUG", kText, "", "", kFree, kBuild, kNoMember, "Not needed: use Meson's buildtype."},
  {"HOROVOD_SKIP_COMPILE", kText, "", "", kFree, kBuild, kNoMember, "Not needed: there is nothing to compile against."},
  {"HOROVOD_LOCAL_VERSION", kText, "", "", kFree, kBuild, kNoMember, "Not read: the version is the package's own."},
  {"HOROVOD_BUILD_FLAGS", kText, "", "", kFree, kBuild, kNoMember, "Known from Horovod's container files; not read."},
  {"HOROVOD_MIXED_INSTALL", kText, "", "", kFree, kBuild, kNoMember, "Known from Horovod's container files; not read."},
};
// clang-format on

}  // namespace

std::span<const Row> table() { return kRows; }

const char* form_name(Form form) {
  static constexpr const char* kNames[] = {
      "flag (integer > 0)", "flag (integer, not 0)", "integer", "number", "text", "word", "secret"};
  return kNames[static_cast<int>(form)];
}

const char* reader_name(Reader reader) {
  static constexpr const char* kNames[] = {"core", "a plugin", "tests", "launcher", "build", "no effect"};
  return kNames[static_cast<int>(reader)];
}

}  // namespace roda::knobs
