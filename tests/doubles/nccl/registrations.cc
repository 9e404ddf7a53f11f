#include "tests/doubles/nccl/registrations.h"

#include <atomic>
#include <cstdlib>

#include "tests/doubles/nccl/communicator.h"
#include "tests/doubles/nccl/double.h"

namespace cuda = roda::cuda;
namespace nccl = roda::nccl;

extern "C" cuda::Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, cuda::Address pointer);

namespace roda::nccl_double {
namespace {

std::atomic<int> made{0}, undone{0}, stale{0}, left{0}, used{0}, halves{0}, communicators{0};

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
  for (const auto& [address, bytes] : ranges_) {
    ++left;
    if (!is_there(address)) ++stale;
  }
}

void* Registrations::add(const void* buffer, std::size_t bytes) {
  const std::lock_guard lock(guard_);
  ranges_[static_cast<const char*>(buffer)] = bytes;
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

bool Registrations::covers(const void* data, std::size_t bytes) const {
  const auto* begin = static_cast<const char*>(data);
  auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

void Registrations::note(const void* from, std::size_t from_bytes, const void* to, std::size_t to_bytes) {
  const std::lock_guard lock(guard_);
  const int covered = (covers(from, from_bytes) ? 1 : 0) + (covers(to, to_bytes) ? 1 : 0);
  if (covered == 2) ++used;
  if (covered == 1) ++halves;
}

}  // namespace roda::nccl_double

using namespace roda::nccl_double;

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE void roda_nccl_double_count(roda_nccl_double_registrations* counts) {
  *counts = {made.load(), undone.load(), stale.load(), left.load(), used.load(), halves.load(), communicators.load()};
}

RODA_DOUBLE void roda_nccl_double_count_collectives(roda_nccl_double_collectives* counts) {
  *counts = {traffic().called.load(), traffic().started.load(), traffic().started_bytes.load()};
}

#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 21900
RODA_DOUBLE nccl::Result ncclCommRegister(nccl::Comm comm, void* buffer, std::size_t bytes, void** handle) {
  if (comm->state.load() == nccl::kInProgress) {
    comm->last_error = "a registration was made while a call was in progress";
    return nccl::kInvalidUsage;
  }
  const char* text = setting("RODA_NCCL_DOUBLE_REGISTER_ERROR", comm->rank);
  if (text != nullptr && std::atoi(text) == comm->registrations.next_number()) {
    comm->last_error = "this buffer can't be registered";
    return nccl::kSystemError;
  }
  *handle = comm->registrations.add(buffer, bytes);
  return nccl::kSuccess;
}
RODA_DOUBLE nccl::Result ncclCommDeregister(nccl::Comm comm, void* handle) {
  if (comm->state.load() == nccl::kInProgress) {
    comm->last_error = "a registration was undone while a call was in progress";
    return nccl::kInvalidUsage;
  }
  return comm->registrations.remove(handle) ? nccl::kSuccess : nccl::kInvalidArgument;
}
#endif
