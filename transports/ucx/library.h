// UCX's own context: how it is configured, what it keeps per process, and the memory registered with it.
#pragma once

#include <roda/abi/transport.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <ucs/type/status.h>
#include <roda/sdk/error.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/base/helper_thread.h"
#include "plugins/base/locked_memory.h"

namespace roda::ucx {

// UCX's functions, opened at run time: where there is no UCX the plugin loads all the same and says so.

// clang-format off
#define RODA_UCP_FUNCTIONS(X)                                                                                       \
  X(am_send_nbx) X(cleanup) X(config_modify) X(config_read) X(config_release) X(context_query) X(ep_close_nbx)      \
  X(ep_create) X(ep_flush_nbx) X(ep_print_info) X(ep_rkey_unpack) X(get_nbx) X(get_version) X(init_version)         \
  X(mem_map) X(mem_query) X(mem_unmap) X(put_nbx) X(request_cancel) X(request_check_status) X(request_free)         \
  X(rkey_buffer_release) X(rkey_destroy) X(rkey_pack) X(tag_recv_nbx) X(tag_send_nbx) X(worker_arm)                 \
  X(worker_create) X(worker_destroy) X(worker_flush_nbx) X(worker_get_address) X(worker_get_efd)                    \
  X(worker_progress) X(worker_release_address) X(worker_set_am_recv_handler)
// clang-format on

#define RODA_UCS_FUNCTIONS(X) X(log_pop_handler) X(log_push_handler) X(status_string)

struct Ucp {
#define X(name) decltype(&::ucp_##name) name = nullptr;
  RODA_UCP_FUNCTIONS(X)
#undef X
};
struct Ucs {
#define X(name) decltype(&::ucs_##name) name = nullptr;
  RODA_UCS_FUNCTIONS(X)
#undef X
};

// Null before open_functions(), constant after it.
extern Ucp ucp;
extern Ucs ucs;

// Loads UCX, if it is not there yet; it is never closed. Any thread. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the
// reason: there is none, or it is older than the headers that this was compiled with.
void open_functions();

// UCX's status codes in the words and codes of the ABI.
inline int32_t code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
      return RODA_ERR_NO_MEMORY;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_IO_ERROR:
      return RODA_ERR_PEER;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return RODA_ERR_UNSUPPORTED;
    default:
      return RODA_ERR_UNKNOWN;
  }
}

inline sdk::Failure failure(ucs_status_t status, const std::string& what, int world_rank = -1) {
  return {code_of(status), "ucx: " + what + ": " + ucs.status_string(status), world_rank};
}

inline void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw failure(status, what);
}

// Whom the groups of a context reach.
enum class Reach { kHost, kNetwork };

// Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason when UCX can't be used on this machine. Undone at once.
void probe_library();
// Throws sdk::Failure where this process has too few descriptors left for a worker: UCX would end the process.
void check_descriptors();

// The version that is loaded, "1.13.1".
std::string library_version();

// One UCX context. Threads: one at a time. Throws sdk::Failure.
class Library {
 public:
  // With Reach::kHost, TCP listens on loopback only, else, where there is no RDMA device, on the interface that has
  // `address`, if that is known; unless UCX_NET_DEVICES or UCX_TLS say something else.
  Library(Reach reach, int expected_peers, const std::string& address);
  ~Library() {
    if (!is_kept_) ucp.cleanup(context_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  ucp_context_h get() const { return context_; }
  bool handles(ucs_memory_type_t type) const { return (memory_types_ & (1ull << type)) != 0; }

  // Registers memory; with a null address allocates it first. *address is filled in then.
  ucp_mem_h map(void** address, std::size_t bytes, ucs_memory_type_t type) const;
  void unmap(ucp_mem_h memory) const { static_cast<void>(ucp.mem_unmap(context_, memory)); }
  // What a peer needs for access to the memory.
  std::vector<char> pack_key(ucp_mem_h memory) const {
    void* packed = nullptr;
    std::size_t bytes = 0;
    check(ucp.rkey_pack(context_, memory, &packed, &bytes), "no remote key for a window");
    const char* from = static_cast<const char*>(packed);
    std::vector<char> key(from, from + bytes);
    ucp.rkey_buffer_release(packed);
    return key;
  }
  // A worker of it stays to the end of the process, and so must UCX's context.
  void keep_for_ever() const { is_kept_ = true; }

 private:
  void check_locked_memory() const;

  ucp_context_h context_ = nullptr;
  std::uint64_t memory_types_ = 0;
  mutable bool is_kept_ = false;
};

// Memory that is registered with UCX for as long as its owner says: handed out here, or registered by name.
//
// A registration costs system calls and, on RDMA devices, a round through the driver; windows and messages over a part
// of memory that is registered here use that registration.

// UCX's word for a kind of memory. Throws for one that this UCX can't move.
ucs_memory_type_t memory_type(const Library& library, int32_t kind);

// Threads: one at a time. Throws sdk::Failure. What is left is given back at the end.
class Memories {
 public:
  explicit Memories(const Library& library) : library_(library) {}
  ~Memories() {
    for (const auto& [address, entry] : entries_) library_.unmap(entry.handle);
  }
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  void allocate(std::size_t bytes, roda_memory* memory) {
    void* address = nullptr;
    const std::size_t length = std::max<std::size_t>(bytes, 1);
    const ucp_mem_h handle = library_.map(&address, length, UCS_MEMORY_TYPE_HOST);
    entries_[key(address)] = {length, handle, 1};
    *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, -1, 0, address, bytes, this};
  }
  void free(roda_memory* memory) {
    if (memory->owner != this) return;
    drop(memory->address);
    memory->address = memory->owner = nullptr;
    memory->length = 0;
  }
  // The same range may be registered several times; the last deregister() ends it.
  void add(const roda_memory& memory) {
    if (const auto known = entries_.find(key(memory.address)); known != entries_.end()) {
      if (known->second.bytes < memory.length) {
        throw sdk::Failure(RODA_ERR_INVALID, "ucx: a shorter range is registered at the same address already");
      }
      ++known->second.uses;
      return;
    }
    void* address = memory.address;
    const ucp_mem_h handle = library_.map(&address, memory.length, memory_type(library_, memory.kind));
    entries_[key(memory.address)] = {memory.length, handle, 1};
  }
  void remove(const roda_memory& memory) { drop(memory.address); }

  // The registration that all of the range lies in, null if there is none.
  ucp_mem_h find(const void* base, std::size_t bytes) const {
    auto after = entries_.upper_bound(key(base));
    if (after == entries_.begin()) return nullptr;
    const auto& [address, entry] = *--after;
    return key(base) + bytes <= address + entry.bytes ? entry.handle : nullptr;
  }

 private:
  struct Entry {
    std::size_t bytes = 0;
    ucp_mem_h handle = nullptr;
    int uses = 0;
  };
  using Key = std::uintptr_t;
  static Key key(const void* address) { return reinterpret_cast<Key>(address); }
  void drop(const void* address) {
    const auto known = entries_.find(key(address));
    if (known == entries_.end() || --known->second.uses > 0) return;
    library_.unmap(known->second.handle);
    entries_.erase(known);
  }

  const Library& library_;
  std::map<Key, Entry> entries_;
};

// UCX warns of settings that none of its transports here took, and of what an abort left unfinished: both are expected.
class WarningsHidden {
 public:
  WarningsHidden() { ucs.log_push_handler(&WarningsHidden::filter); }
  ~WarningsHidden() { ucs.log_pop_handler(); }
  WarningsHidden(const WarningsHidden&) = delete;
  WarningsHidden& operator=(const WarningsHidden&) = delete;

 private:
  static ucs_log_func_rc_t filter(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t*, const char*, va_list) {
    return level == UCS_LOG_LEVEL_WARN ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
  }
};

// One UCX worker: the connections of one group, and the descriptor that tells of their events.
//
// Every group has a worker of its own. Its endpoints can then be closed by force without touching another group, tags
// and control messages of different groups can't meet, and destroying the worker ends all that is left.
//
// Threads: one at a time. Throws sdk::Failure.
class Worker {
 public:
  // The library outlives it.
  explicit Worker(const Library& library) {
    // UCX starts a helper thread with its first worker, which inherits the mask.
    const SignalsBlocked blocked;
    const WarningsHidden hidden;
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    // The default is everything, which includes UCP_WAKEUP_EDGE: events that are there already would wake nobody.
    params.events =
        UCP_WAKEUP_RMA | UCP_WAKEUP_AMO | UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV | UCP_WAKEUP_TX | UCP_WAKEUP_RX;
    check_descriptors();
    ucs_status_t status = ucp.worker_create(library.get(), &params, &worker_);
    if (status != UCS_OK) {
      // UCX does not hand on why a device refused.
      const sdk::Failure plain = failure(status, "no worker could be created");
      throw sdk::Failure(plain.code(), plain.what() + locked_memory_advice());
    }
    status = ucp.worker_get_efd(worker_, &event_fd_);
    if (status == UCS_OK) return;
    ucp.worker_destroy(worker_);
    throw failure(status, "none of the transports that UCX_TLS allows can wake a sleeper");
  }
  ~Worker() {
    const WarningsHidden hidden;
    ucp.worker_destroy(worker_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  std::vector<char> address() const {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    check(ucp.worker_get_address(worker_, &address, &bytes), "the worker has no address");
    const char* from = reinterpret_cast<const char*>(address);
    std::vector<char> copy(from, from + bytes);
    ucp.worker_release_address(worker_, address);
    return copy;
  }

  // Events handled.
  int progress() { return static_cast<int>(ucp.worker_progress(worker_)); }
  // The same for the worker's whole life.
  int event_fd() const { return event_fd_; }
  // True: the descriptor becomes readable at the next event. False: there are events already.
  bool arm() {
    const ucs_status_t status = ucp.worker_arm(worker_);
    if (status != UCS_OK && status != UCS_ERR_BUSY) throw failure(status, "the worker can't be armed");
    return status == UCS_OK;
  }

 private:
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

}  // namespace roda::ucx
