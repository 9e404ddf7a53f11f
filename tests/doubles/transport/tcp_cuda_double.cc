// A DOUBLE of a transport whose messages take a GPU's memory, for tests without one: the tcp transport under another
// name, which says that it does. What lies on a GPU of the CUDA double is host memory, so its sockets can read it. It
// checks that callers say of every range in what kind of memory it lies, and tells the CUDA double when the range is
// read and written, pinned memory as well. It proves our logic only: nothing that runs on
// it says anything about a GPU or a network.
//
// RODA_TCP_CUDA_DOUBLE, by environment: 0 takes host memory alone, odd takes a GPU's on odd ranks; else on all.
#include <roda/sdk/error.hpp>
#include <roda/sdk/plugin.hpp>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/double.h"
#include "transports/tcp/tcp.h"

extern "C" roda::cuda::Result cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                                                     roda::cuda::Address pointer);

namespace {

namespace cuda = roda::cuda;

std::uint32_t memory_kinds(roda_context*, std::int32_t) {
  const char* text = std::getenv("RODA_TCP_CUDA_DOUBLE");
  const std::string setting = text == nullptr ? "" : text;
  const char* rank = std::getenv("HOROVOD_RANK");
  const bool is_odd = rank != nullptr && std::atoi(rank) % 2 == 1;
  const bool takes = setting != "0" && (setting != "odd" || is_odd);
  return 1u << RODA_MEMORY_HOST | (takes ? 1u << RODA_MEMORY_CUDA : 0u);
}

int kind_at(const void* address) {
  unsigned type = 0;
  int attribute = cuda::kPointerMemoryType;
  void* value = &type;
  cuPointerGetAttributes(1, &attribute, &value, reinterpret_cast<cuda::Address>(address));
  return type == cuda::kMemoryDevice ? int{RODA_MEMORY_CUDA} : int{RODA_MEMORY_HOST};
}

// The range is what the caller says, and something that is taken.
std::int32_t check(const void* data, std::size_t bytes, const roda_memory* memory, roda_error* error) {
  const int said = memory == nullptr ? int{RODA_MEMORY_HOST} : memory->kind;
  const bool is_right = bytes == 0 || kind_at(data) == said;
  const bool is_taken = (memory_kinds(nullptr, 0) & 1u << said) != 0;
  if (is_right && is_taken) return RODA_OK;
  return roda::sdk::guarded(error, []() -> std::int32_t {
    throw roda::sdk::Failure(RODA_ERR_INVALID, "tcp_cuda_double: a range lies in another kind of memory than was said");
  });
}

// Messages under way: what the host's processor reads or writes until they are over.
struct Use {
  const void* data;
  std::size_t bytes;
  bool writes;
};
std::mutex guard;
std::map<roda_request*, Use> uses;  // guarded

void touch(const Use& use) {
  roda_cuda_double_touch(use.data, use.bytes, use.writes ? 1 : 0, use.writes ? "a receipt" : "a sending");
}

// `begin` starts the message.
template <typename Begin>
std::int32_t start(const Use& use, const roda_memory* memory, roda_request** request, roda_error* error,
                   Begin&& begin) {
  if (const std::int32_t code = check(use.data, use.bytes, memory, error); code != RODA_OK) return code;
  touch(use);
  *request = nullptr;
  const std::int32_t code = begin();
  if (code != RODA_OK || *request == nullptr) return code;
  const std::lock_guard lock(guard);
  uses[*request] = use;
  return code;
}

std::int32_t send(roda_group* group, std::int32_t peer, std::uint64_t tag, const void* data, std::size_t bytes,
                  const roda_memory* memory, roda_request** request, roda_error* error) {
  return start({data, bytes, false}, memory, request, error,
               [&] { return roda_tcp_transport()->send(group, peer, tag, data, bytes, nullptr, request, error); });
}

std::int32_t receive(roda_group* group, std::int32_t peer, std::uint64_t tag, void* data, std::size_t bytes,
                     const roda_memory* memory, roda_request** request, roda_error* error) {
  return start({data, bytes, true}, memory, request, error,
               [&] { return roda_tcp_transport()->recv(group, peer, tag, data, bytes, nullptr, request, error); });
}

// The request is gone when it is over.
std::int32_t test(roda_group* group, roda_request* request, roda_error* error) {
  const std::int32_t code = roda_tcp_transport()->request_test(group, request, error);
  if (code == RODA_IN_PROGRESS) return code;
  const std::lock_guard lock(guard);
  const auto found = uses.find(request);
  if (found == uses.end()) return code;
  if (code == RODA_OK) touch(found->second);
  uses.erase(found);
  return code;
}

const roda_transport* table() {
  static const roda_transport made = [] {
    roda_transport t = *roda_tcp_transport();
    t.name = "tcp_cuda_double";
    t.description = "a DOUBLE: tcp on the CUDA double's memory";
    t.send = &send;
    t.recv = &receive;
    t.request_test = &test;
    t.memory_kinds = &memory_kinds;
    return t;
  }();
  return &made;
}

}  // namespace

RODA_TRANSPORT_PLUGIN("tcp_cuda_double", table());
