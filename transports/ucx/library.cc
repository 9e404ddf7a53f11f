#include "transports/ucx/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include "plugins/base/local_address.h"
#include "plugins/base/mutex.h"
#include "plugins/base/symbols.h"
#include "plugins/base/unique_fd.h"

namespace roda::ucx {

Ucp ucp;
Ucs ucs;

namespace {

constexpr const char* kFile = "libucp.so.0";

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason); }

std::string version_text(unsigned major, unsigned minor) { return std::to_string(major) + "." + std::to_string(minor); }

std::string needed() {
  const std::string major = std::to_string(UCP_API_MAJOR);
  return "this plugin needs " + version_text(UCP_API_MAJOR, UCP_API_MINOR) + " or a later " + major + ".x";
}

template <typename Function>
void demand(void* library, const char* name, Function* function) {
  if (!look_up(library, name, function)) refuse(std::string(kFile) + " has no " + name + ": " + needed());
}

// PyPI's package libucx, which lies beside ours, where the loader does not look. In a wheel this plugin is
// horovod/lib/roda/plugins/roda_ucx.so.
std::string file_of_package() {
  const std::filesystem::path folder = std::filesystem::path(file_of(&open_functions, "")).parent_path();
  return (folder / "../../../../libucx/lib" / kFile).lexically_normal();
}

void* open_library() {
  // Never closed: UCX's threads and exit handlers would outlive its code.
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (void* library = ::dlopen(kFile, kMode); library != nullptr) return library;
  std::string reasons = ::dlerror();
  std::error_code error;
  if (const std::string file = file_of_package(); std::filesystem::exists(file, error)) {
    if (void* library = ::dlopen(file.c_str(), kMode); library != nullptr) return library;
    reasons += std::string("; ") + ::dlerror();
  }
  refuse("no UCX: " + reasons +
         "; install it (Debian: libucx0; pip: libucx-cu12) or add its folder to LD_LIBRARY_PATH");
}

void check_version(void* library) {
  decltype(&::ucp_get_version) get_version = nullptr;
  demand(library, "ucp_get_version", &get_version);
  unsigned major = 0, minor = 0, release = 0;
  get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR) return;
  refuse("UCX " + version_text(major, minor) + "." + std::to_string(release) + " (" + file_of(get_version, kFile) +
         ") is installed, but " + needed());
}

struct Setting {
  const char* name;
  const char* value;
  const char* unless;  // the user's environment has this
};

// What differs from UCX's defaults. UCX 1.13 knows the settings of its transports by shorter names than later versions;
// a name that it does not know is harmless.
constexpr Setting kSettings[] = {
    // Endpoints that notice a dead peer leave out shared memory otherwise.
    {"MM_ERROR_HANDLING", "y", "POSIX_ERROR_HANDLING"},
    {"POSIX_ERROR_HANDLING", "y", "POSIX_ERROR_HANDLING"},
    {"SYSV_ERROR_HANDLING", "y", "SYSV_ERROR_HANDLING"},
    {"XPMEM_ERROR_HANDLING", "y", "XPMEM_ERROR_HANDLING"},
    // connect() would block forming, for minutes where a host is gone.
    {"CONN_NB", "y", "TCP_CONN_NB"},
    {"TCP_CONN_NB", "y", "TCP_CONN_NB"},
    {"KEEPALIVE_INTERVAL", "1s", "KEEPALIVE_INTERVAL"},
    // Endpoints that notice a dead peer get no direct writes over TCP: large messages go in fragments of this size,
    // each with a header read apart. With the default, 64 KiB, that takes half of the bandwidth.
    {"RX_SEG_SIZE", "256k", "TCP_RX_SEG_SIZE"},
    {"TCP_RX_SEG_SIZE", "256k", "TCP_RX_SEG_SIZE"},
    {"TX_SEG_SIZE", "256k", "TCP_TX_SEG_SIZE"},
    {"TCP_TX_SEG_SIZE", "256k", "TCP_TX_SEG_SIZE"},
    // Software RoCE says more than once that a queue pair is at its end, which UCX does not survive (an assertion in
    // its helper thread); without these events UCX cleans queue pairs up with the worker, and every group has its own.
    {"ASYNC_EVENTS", "n", "IB_ASYNC_EVENTS"},
    {"IB_ASYNC_EVENTS", "n", "IB_ASYNC_EVENTS"},
};

const char* environment(const std::string& name) { return std::getenv(("UCX_" + name).c_str()); }

// True when UCX_TLS names nothing that needs a network device other than loopback between processes of one host.
bool loopback_suffices() {
  constexpr std::string_view kLocal[] = {"all",  "self", "tcp",  "sm",    "shm",  "mm",        "posix",
                                         "sysv", "cma",  "knem", "xpmem", "cuda", "cuda_copy", "cuda_ipc"};
  if (environment("NET_DEVICES") != nullptr) return false;
  const char* text = environment("TLS");
  std::istringstream names(text == nullptr ? "all" : text);
  for (std::string name; std::getline(names, name, ',');) {
    if (std::ranges::find(kLocal, name) == std::end(kLocal)) return false;
  }
  return true;
}

// True when messages can take no RDMA device.
bool sockets_suffice(Reach reach) {
  if (reach == Reach::kHost && loopback_suffices()) return true;
  std::error_code none;
  return std::filesystem::is_empty("/sys/class/infiniband", none) || none;
}

// The only one that UCX may use; empty: it chooses, and takes an interface that leads nowhere as well.
std::string net_device(Reach reach, const std::string& address) {
  if (reach == Reach::kHost) return loopback_suffices() ? "lo" : "";
  return environment("NET_DEVICES") == nullptr && sockets_suffice(reach) ? interface_of(address) : "";
}

using Config = std::unique_ptr<ucp_config_t, decltype(ucp.config_release)>;

Config read_config(Reach reach, const std::string& address) {
  ucp_config_t* raw = nullptr;
  check(ucp.config_read(nullptr, nullptr, &raw), "the UCX_* environment variables could not be read");
  Config config(raw, ucp.config_release);
  for (const Setting& setting : kSettings) {
    if (environment(setting.unless) == nullptr) ucp.config_modify(raw, setting.name, setting.value);
  }
  // UCX 1.13 ends the process (an assertion) when the send that finds a TCP connection reset has lent its bytes to
  // the socket: it is ended twice. With fragments as large as these the copy costs nothing; over RDMA it would.
  if (sockets_suffice(reach) && environment("ZCOPY_THRESH") == nullptr) ucp.config_modify(raw, "ZCOPY_THRESH", "inf");
  // A flush of the worker must not become one of its endpoints, which may need the peers' progress (Group::settle).
  ucp.config_modify(raw, "FLUSH_WORKER_EPS", "n");
  if (const std::string device = net_device(reach, address); !device.empty()) {
    ucp.config_modify(raw, "NET_DEVICES", device.c_str());
  }
  return config;
}

ucp_context_h create(Reach reach, int expected_peers, const std::string& address) {
  const Config config = read_config(reach, address);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<std::size_t>(expected_peers);
  params.mt_workers_shared = 0;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context);
  if (status == UCS_OK) return context;
  const char* transports = environment("TLS");
  const char* devices = environment("NET_DEVICES");
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, std::string("UCX finds no usable transport (") + ucs.status_string(status) +
                                               "; UCX_TLS=" + (transports != nullptr ? transports : "") +
                                               " UCX_NET_DEVICES=" + (devices != nullptr ? devices : "") +
                                               "; `ucx_info -d` lists what there is)");
}

}  // namespace

void open_functions() {
  static Mutex guard;
  const MutexLock lock(guard);
  if (ucp.get_version != nullptr) return;
  void* library = open_library();
  check_version(library);
  Ucp found_ucp;
  Ucs found_ucs;
#define X(name) demand(library, "ucp_" #name, &found_ucp.name);
  RODA_UCP_FUNCTIONS(X)
#undef X
#define X(name) demand(library, "ucs_" #name, &found_ucs.name);
  RODA_UCS_FUNCTIONS(X)
#undef X
  ucs = found_ucs;
  ucp = found_ucp;
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp.get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

void check_descriptors() {
  constexpr int kNeeded = 16;
  std::vector<UniqueFd> descriptors;
  for (int i = 0; i < kNeeded; ++i) {
    if (descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC))) continue;
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, "UCX needs at least " + std::to_string(kNeeded) +
                                                 " more file descriptors than this process may open: raise the limit "
                                                 "(ulimit -n)");
  }
}

void probe_library() {
  check_descriptors();
  open_functions();
  ucp.cleanup(create(Reach::kNetwork, 1, ""));
}

// UCX registers the queues of a worker on an RDMA device piece by piece, and where that fails it tries again and again:
// a group would form for ever. So the whole is tried beforehand. Costs nothing where there is no such device, or no
// limit.
void Library::check_locked_memory() const {
  constexpr std::size_t kQueues = std::size_t{80} << 20;
  if (may_lock_all_memory()) return;
  void* queues = ::mmap(nullptr, kQueues, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (queues == MAP_FAILED) return;
  const auto unmap_queues = [](void* pages) { ::munmap(pages, kQueues); };
  const std::unique_ptr<void, decltype(unmap_queues)> owner(queues);
  try {
    return unmap(map(&queues, kQueues, UCS_MEMORY_TYPE_HOST));
  } catch (const sdk::Failure&) {
  }
  throw sdk::Failure(RODA_ERR_NO_MEMORY, "ucx: the queues of a group, " + std::to_string(kQueues >> 20) +
                                             " MiB, can't be registered with a device of UCX_TLS" +
                                             locked_memory_advice());
}

Library::Library(Reach reach, int expected_peers, const std::string& address)
    : context_(create(reach, expected_peers, address)) {
  try {
    check_locked_memory();
  } catch (const sdk::Failure&) {
    ucp.cleanup(context_);
    throw;
  }
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (ucp.context_query(context_, &attributes) == UCS_OK) memory_types_ = attributes.memory_types;
}

ucp_mem_h Library::map(void** address, std::size_t bytes, ucs_memory_type_t type) const {
  const bool allocates = *address == nullptr;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = *address;
  params.length = bytes;
  params.flags = allocates ? static_cast<unsigned>(UCP_MEM_MAP_ALLOCATE) : 0;
  params.memory_type = type;
  ucp_mem_h memory = nullptr;
  const ucs_status_t status = ucp.mem_map(context_, &params, &memory);
  if (status != UCS_OK) {
    const sdk::Failure plain = failure(
        status, std::to_string(bytes) + " bytes of memory could not be " + (allocates ? "allocated" : "registered"));
    throw sdk::Failure(plain.code(), plain.what() + locked_memory_advice());
  }
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  if (allocates && ucp.mem_query(memory, &attributes) == UCS_OK) *address = attributes.address;
  return memory;
}

ucs_memory_type_t memory_type(const Library& library, int32_t kind) {
  const ucs_memory_type_t type = kind == RODA_MEMORY_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
  if (library.handles(type)) return type;
  throw sdk::Failure(RODA_ERR_UNSUPPORTED,
                     "ucx: UCX " + library_version() +
                         " was not built for CUDA memory, or finds no GPU: `ucx_info -d` shows no cuda_copy");
}

}  // namespace roda::ucx
