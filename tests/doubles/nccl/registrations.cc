#include "tests/doubles/nccl/registrations.h"

#include <atomic>
#include <cstdlib>

#include "tests/doubles/nccl/communicator.h"
#include "tests/doubles/nccl/double.h"

namespace cuda = roda::cuda;
namespace nccl = roda::nccl;

extern "C" {
cuda::Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, cuda::Address pointer);
cuda::Result cuMemAlloc_v2(cuda::Address* address, std::size_t bytes);
cuda::Result cuMemFree_v2(cuda::Address address);
}

namespace roda::nccl_double {
namespace {

std::atomic<int> made{0}, undone{0}, stale{0}, left{0}, used{0}, halves{0}, communicators{0}, windows{0};

// What ncclMemAlloc gave.
std::mutex memory_guard;
auto& memory = *new std::map<void*, std::size_t>;  // guarded; never destroyed, as the device's memory

bool is_there(const void* address) {
  unsigned type = 0;
  int attribute = cuda::kPointerMemoryType;
  void* value = &type;
  cuPointerGetAttributes(1, &attribute, &value, reinterpret_cast<cuda::Address>(address));
  return type != 0;
}

}  // namespace

Registrations::Registrations() { ++communicators; }

Registrations::~Registrations() {
  --communicators;
  if (is_given_up_) return;
  for (const auto& [address, range] : ranges_) {
    ++left;
    if (!is_there(address)) ++stale;
  }
}

void* Registrations::add(const void* buffer, std::size_t bytes, bool is_window) {
  const std::lock_guard lock(guard_);
  ranges_[static_cast<const char*>(buffer)] = {bytes, is_window ? ++windows_ : 0};
  ++made;
  return const_cast<void*>(buffer);
}

bool Registrations::remove(void* handle) {
  const std::lock_guard lock(guard_);
  const bool is_known = ranges_.erase(static_cast<const char*>(handle)) == 1;
  if (is_known) ++undone;
  if (!is_known || !is_there(handle)) ++stale;
  return is_known;
}

std::uint64_t Registrations::note_window(bool comes, std::size_t bytes) {
  const std::lock_guard lock(guard_);
  return history_ = (history_ ^ (2 * bytes + (comes ? 1 : 0))) * 0x100000001b3 + 1;
}

// 0: in nothing that is registered.
std::uint64_t Registrations::place(const void* data, std::size_t bytes) const {
  const auto* begin = static_cast<const char*>(data);
  auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return 0;
  --after;
  if (begin + bytes > after->first + after->second.bytes) return 0;
  return after->second.window == 0 ? 1
                                   : (after->second.window << 40) + static_cast<std::uint64_t>(begin - after->first);
}

std::uint64_t Registrations::note(const void* from, std::size_t from_bytes, const void* to, std::size_t to_bytes) {
  const std::lock_guard lock(guard_);
  const std::uint64_t input = place(from, from_bytes), output = place(to, to_bytes);
  if (input != 0 && output != 0) ++used;
  if ((input == 0) != (output == 0)) ++halves;
  return input * 3 + output;
}

}  // namespace roda::nccl_double

using namespace roda::nccl_double;

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE void roda_nccl_double_count(roda_nccl_double_registrations* counts) {
  *counts = {made.load(), undone.load(), stale.load(),         left.load(),
             used.load(), halves.load(), communicators.load(), windows.load()};
}

RODA_DOUBLE void roda_nccl_double_count_collectives(roda_nccl_double_collectives* counts) {
  *counts = {traffic().called.load(), traffic().started.load(), traffic().started_bytes.load(),
             traffic().all_to_alls.load()};
}

#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 21900
// What a registration that is begun comes to at once, if it doesn't go on.
static nccl::Result check_registration(nccl::Comm comm, const Call& call) {
  if (!call.may_go_on()) return nccl::kInvalidUsage;
  const char* text = setting("RODA_NCCL_DOUBLE_REGISTER_ERROR", comm->rank);
  if (text == nullptr || std::atoi(text) != comm->registrations.next_number()) return nccl::kSuccess;
  comm->last_error = "this buffer can't be registered";
  return nccl::kSystemError;
}

RODA_DOUBLE nccl::Result ncclMemAlloc(void** given, std::size_t bytes) {
  cuda::Address address = 0;
  if (cuMemAlloc_v2(&address, bytes) != cuda::kSuccess) return nccl::kUnhandledCudaError;
  *given = reinterpret_cast<void*>(address);
  const std::lock_guard lock(memory_guard);
  memory[*given] = bytes;
  return nccl::kSuccess;
}
RODA_DOUBLE nccl::Result ncclMemFree(void* given) {
  {
    const std::lock_guard lock(memory_guard);
    if (memory.erase(given) == 0) return nccl::kInvalidArgument;
  }
  return cuMemFree_v2(reinterpret_cast<cuda::Address>(given)) == cuda::kSuccess ? nccl::kSuccess
                                                                                : nccl::kUnhandledCudaError;
}
RODA_DOUBLE nccl::Result ncclCommRegister(nccl::Comm comm, void* buffer, std::size_t bytes, void** handle) {
  const Call call(comm);
  const nccl::Result result = check_registration(comm, call);
  if (result == nccl::kSuccess) *handle = comm->registrations.add(buffer, bytes, false);
  return result;
}
RODA_DOUBLE nccl::Result ncclCommDeregister(nccl::Comm comm, void* handle) {
  const Call call(comm);
  if (!call.may_go_on()) return nccl::kInvalidUsage;
  return comm->registrations.remove(handle) ? nccl::kSuccess : nccl::kInvalidArgument;
}
#endif

#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 22700
// All ranks come here, as with the real one, and what they had before must be the same: it maps windows by that.
RODA_DOUBLE nccl::Result ncclCommWindowRegister(nccl::Comm comm, void* buffer, std::size_t bytes, void** window,
                                                int flags) {
  const Call call(comm);
  if (const nccl::Result result = check_registration(comm, call); result != nccl::kSuccess) return result;
  *window = nullptr;
  const char* has_windows = setting("RODA_NCCL_DOUBLE_WINDOWS", comm->rank);
  if (has_windows != nullptr && std::atoi(has_windows) == 0) return nccl::kSuccess;
  {
    const std::lock_guard lock(memory_guard);
    const auto found = memory.find(buffer);
    if (found == memory.end() || found->second < bytes || flags != nccl::kSymmetric) return nccl::kInvalidArgument;
  }
  bool are_equal = false;
  const auto given_up = [comm] { return comm->is_aborted.load(); };
  if (!comm->board->exchange(0, comm->registrations.note_window(true, bytes), given_up, &are_equal)) {
    return nccl::kInternalError;
  }
  if (!are_equal) {
    comm->last_error = "windows came and went in another order on another rank";
    return nccl::kInvalidUsage;
  }
  ++windows;
  *window = comm->registrations.add(buffer, bytes, true);
  return nccl::kSuccess;
}
RODA_DOUBLE nccl::Result ncclCommWindowDeregister(nccl::Comm comm, void* window) {
  const Call call(comm);
  if (!call.may_go_on()) return nccl::kInvalidUsage;
  if (window == nullptr) return nccl::kSuccess;
  comm->registrations.note_window(false, 0);
  return comm->registrations.remove(window) ? nccl::kSuccess : nccl::kInvalidArgument;
}
#endif
