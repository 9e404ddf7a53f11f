#include "tests/doubles/cuda/memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "tests/doubles/cuda/order.h"

namespace roda::cuda_double {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kArena = std::size_t{256} << 30;  // of addresses

// A part of a range that was accessed as one.
struct Part {
  std::size_t end;
  Access write;
  std::map<Actor, Access> reads;  // since then
};
struct Range {
  std::size_t bytes;
  int device;
  std::map<std::size_t, Part> parts;  // by where they begin; all of the range
};

std::mutex guard;
auto& ranges = *new std::map<const char*, Range>;  // guarded; never destroyed: streams' threads may outlive main
std::map<int, std::size_t> in_use;                 // guarded
char *arena = nullptr, *next_address = nullptr;    // guarded
std::atomic<unsigned long long> staged{0};

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

bool is_in_arena(const char* address) { return arena != nullptr && address >= arena && address < arena + kArena; }

// With a page that is nobody's behind it.
char* map_memory(std::size_t bytes) {
  if (arena == nullptr) {
    void* all = ::mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    arena = next_address = static_cast<char*>(all);
  }
  const std::size_t length = round_up(bytes, kPage);
  if (length + kPage > static_cast<std::size_t>(arena + kArena - next_address)) return nullptr;
  if (::mprotect(next_address, length, PROT_READ | PROT_WRITE) != 0) return nullptr;
  char* mapped = next_address;
  next_address += length + kPage;
  return mapped;
}

std::map<const char*, Range>::iterator range_of(const char* address) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  --after;
  return address < after->first + after->second.bytes ? after : ranges.end();
}

// Parts begin and end there from now on.
void split(std::map<std::size_t, Part>& parts, std::size_t at) {
  auto part = std::prev(parts.upper_bound(at));
  if (part->first == at || at >= part->second.end) return;
  Part rest = part->second;
  part->second.end = at;
  parts.emplace(at, std::move(rest));
}

// The earlier access that nothing orders before this one, if any.
const Access* unordered(const Part& part, bool writes, const Clock& clock) {
  if (part.write.time > clock.of(part.write.actor)) return &part.write;
  for (const auto& [actor, read] : part.reads) {
    if (writes && read.time > clock.of(actor)) return &read;
  }
  return nullptr;
}

std::string place(const Range& range, std::size_t offset, std::size_t bytes) {
  const std::string where = range.device < 0 ? "pinned memory" : "memory of device " + std::to_string(range.device);
  return std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of " + std::to_string(range.bytes) + " of " +
         where;
}

// What is wrong with the access, or nothing; and it is remembered.
std::string access(Range& range, std::size_t offset, std::size_t bytes, bool writes, const Work& work) {
  const auto says = [&](const char* verb, const std::string& why) {
    return describe(work.self) + " " + verb + " " + place(range, offset, bytes) + why;
  };
  if (offset + bytes > range.bytes) return says("touches", ": it goes beyond it");
  if (work.device >= 0 && range.device >= 0 && work.device != range.device) {
    return says("touches", ": but it runs on device " + std::to_string(work.device));
  }
  split(range.parts, offset);
  split(range.parts, offset + bytes);
  std::string mistake;
  for (auto part = range.parts.find(offset); part != range.parts.end() && part->first < offset + bytes; ++part) {
    const Access* other = unordered(part->second, writes, work.clock);
    if (other != nullptr && mistake.empty()) {
      mistake = says(writes ? "writes" : "reads", ": nothing makes it wait for " + describe(*other));
    }
    if (!writes) part->second.reads[work.self.actor] = work.self;
  }
  if (!writes) return mistake;
  range.parts.erase(range.parts.find(offset), range.parts.lower_bound(offset + bytes));
  range.parts[offset] = Part{offset + bytes, work.self, {}};
  return mistake;
}

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
  const Work work = Order::get().here("the allocation");
  const std::lock_guard lock(guard);
  char* memory = map_memory(bytes);
  if (memory == nullptr) return cuda::kOutOfMemory;
  Range& range = ranges[memory] = {bytes, device, {}};
  range.parts[0] = {bytes, work.self, {}};
  in_use[device] += round_up(bytes, kAlignment);
  *address = memory;
  return cuda::kSuccess;
}

cuda::Result release(void* address, bool of_device, const char* what) {
  const Work work = Order::get().here(what);
  std::string mistake;
  {
    const std::lock_guard lock(guard);
    const auto found = ranges.find(static_cast<const char*>(address));
    if (found == ranges.end() || (found->second.device >= 0) != of_device) return cuda::kInvalidValue;
    mistake = access(found->second, 0, found->second.bytes, true, work);
    in_use[found->second.device] -= round_up(found->second.bytes, kAlignment);
    ::mmap(address, round_up(found->second.bytes, kPage), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    ranges.erase(found);
  }
  if (!mistake.empty()) report(mistake);
  return cuda::kSuccess;
}

int owner_of(const void* address) {
  const std::lock_guard lock(guard);
  const auto found = range_of(static_cast<const char*>(address));
  return found == ranges.end() ? -2 : found->second.device;
}

bool touch(const void* address, std::size_t bytes, bool writes, const char* what) {
  if (bytes == 0) return true;
  const auto* begin = static_cast<const char*>(address);
  const Work work = Order::get().here(what);
  std::string mistake;
  bool is_there = true;
  {
    const std::lock_guard lock(guard);
    if (!is_in_arena(begin)) return true;
    const auto found = range_of(begin);
    is_there = found != ranges.end();
    mistake = is_there ? access(found->second, static_cast<std::size_t>(begin - found->first), bytes, writes, work)
                       : describe(work.self) + " touches memory that was given back";
    is_there = is_there && begin + bytes <= found->first + found->second.bytes;
  }
  if (!mistake.empty()) report(mistake);
  return is_there;
}

bool note_copy(const void* to, const void* from, std::size_t bytes) {
  const int to_owner = owner_of(to), from_owner = owner_of(from);
  const bool is_staged = (to_owner >= 0 && from_owner == -1) || (to_owner == -1 && from_owner >= 0);
  if (is_staged) staged += bytes;
  return is_staged;
}

unsigned long long staged_bytes() { return staged.load(); }

}  // namespace roda::cuda_double

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE int roda_cuda_double_touch(const void* address, std::size_t bytes, int writes, const char* what) {
  return roda::cuda_double::touch(address, bytes, writes != 0, what) ? 1 : 0;
}
