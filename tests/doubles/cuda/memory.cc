#include "tests/doubles/cuda/memory.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

namespace roda::cuda_double {
namespace {

constexpr std::size_t kAlignment = 256;

struct Range {
  std::size_t bytes;
  int device;
};

std::mutex guard;
std::map<const char*, Range> ranges;  // guarded
std::map<int, std::size_t> in_use;    // guarded
std::atomic<unsigned long long> staged{0};

}  // namespace

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

void usage(int device, std::size_t* used, std::size_t* total) {
  const std::lock_guard lock(guard);
  *total = static_cast<std::size_t>(setting("RODA_CUDA_DOUBLE_MEMORY", 1L << 30));
  *used = in_use[device];
}

cuda::Result allocate(int device, std::size_t bytes, void** address) {
  std::size_t used = 0, total = 0;
  usage(device, &used, &total);
  if (bytes == 0) return cuda::kInvalidValue;
  if (device >= 0 && bytes > total - used) return cuda::kOutOfMemory;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return cuda::kOutOfMemory;
  const std::lock_guard lock(guard);
  ranges[static_cast<const char*>(memory)] = {rounded, device};
  in_use[device] += rounded;
  *address = memory;
  return cuda::kSuccess;
}

cuda::Result release(void* address, bool of_device) {
  {
    const std::lock_guard lock(guard);
    const auto found = ranges.find(static_cast<const char*>(address));
    if (found == ranges.end() || (found->second.device >= 0) != of_device) return cuda::kInvalidValue;
    in_use[found->second.device] -= found->second.bytes;
    ranges.erase(found);
  }
  std::free(address);
  return cuda::kSuccess;
}

int owner_of(const void* address) {
  const auto* wanted = static_cast<const char*>(address);
  const std::lock_guard lock(guard);
  auto after = ranges.upper_bound(wanted);
  if (after == ranges.begin()) return -2;
  --after;
  return wanted < after->first + after->second.bytes ? after->second.device : -2;
}

void note_copy(const void* to, const void* from, std::size_t bytes) {
  const int to_owner = owner_of(to), from_owner = owner_of(from);
  if ((to_owner >= 0 && from_owner == -1) || (to_owner == -1 && from_owner >= 0)) staged += bytes;
}

unsigned long long staged_bytes() { return staged.load(); }

}  // namespace roda::cuda_double
