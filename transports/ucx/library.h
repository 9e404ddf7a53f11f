// UCX's own context: how it is configured, what it keeps per process, and the memory registered with it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <string>
#include <vector>

namespace roda::ucx {

// Whom the groups of a context reach.
enum class Reach { kHost, kNetwork };

// Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason when UCX can't be used on this machine. Undone at once.
void probe_library();

// The version that is loaded, "1.13.1".
std::string library_version();

// One UCX context. Threads: one at a time. Throws sdk::Failure.
class Library {
 public:
  // With Reach::kHost, TCP listens on loopback only, unless UCX_NET_DEVICES or UCX_TLS say something else.
  Library(Reach reach, int expected_peers);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  ucp_context_h get() const { return context_; }
  bool handles(ucs_memory_type_t type) const { return (memory_types_ & (1ull << type)) != 0; }

  // Registers memory; with a null address allocates it first. *address is filled in then.
  ucp_mem_h map(void** address, std::size_t bytes, ucs_memory_type_t type) const;
  void unmap(ucp_mem_h memory) const { static_cast<void>(ucp_mem_unmap(context_, memory)); }
  // What a peer needs for access to the memory.
  std::vector<char> pack_key(ucp_mem_h memory) const;
  // A worker of it stays to the end of the process, and so must UCX's context.
  void keep_for_ever() const { is_kept_ = true; }

 private:
  void check_locked_memory() const;

  ucp_context_h context_ = nullptr;
  std::uint64_t memory_types_ = 0;
  mutable bool is_kept_ = false;
};

}  // namespace roda::ucx
