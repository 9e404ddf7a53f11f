#include "plugins/conformance/world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <roda/abi/types.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace roda::conformance {
namespace {

// Wakes up after a while by itself: a rank may fail, or be killed, without waking anyone.
void wait_for_change(std::atomic<std::uint32_t>* word, std::uint32_t seen) {
  timespec slice{0, 1'000'000};
  ::syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// The pages are zero and stay untouched until used: no constructor writes 32 MiB of them.
World* map_world(int descriptor) {
  const int flags = MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  void* memory = ::mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<World*>(memory);
}

}  // namespace

World* World::create(int size, int* descriptor) {
  if (descriptor != nullptr) {
    *descriptor = ::memfd_create("roda-conformance", MFD_CLOEXEC);
    if (*descriptor < 0 || ::ftruncate(*descriptor, sizeof(World)) != 0) return nullptr;
  }
  World* world = map_world(descriptor != nullptr ? *descriptor : -1);
  if (world != nullptr) world->size_ = size;
  return world;
}

World* World::attach(const char* path) {
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  World* world = map_world(descriptor);
  ::close(descriptor);
  return world;
}

void World::destroy(World* world) { ::munmap(world, sizeof(World)); }

bool World::put(const std::string& group, int rank, const char* key, const void* value, std::size_t bytes) {
  const std::uint32_t index = entries_used_.fetch_add(1);
  const std::uint32_t offset = arena_used_.fetch_add(static_cast<std::uint32_t>(bytes));
  if (index >= kEntries || offset + bytes > kArena) return false;
  Entry& entry = entries_[index];
  entry.rank = rank;
  entry.offset = offset;
  entry.bytes = static_cast<std::uint32_t>(bytes);
  std::snprintf(entry.group, sizeof entry.group, "%s", group.c_str());
  std::snprintf(entry.key, sizeof entry.key, "%s", key);
  if (bytes > 0) std::memcpy(arena_ + offset, value, bytes);
  entry.is_ready.store(1, std::memory_order_release);
  return true;
}

int32_t World::get(const std::string& group, int rank, const char* key, void* value, std::size_t* bytes) {
  const std::uint32_t used = std::min(entries_used_.load(), kEntries);
  for (std::uint32_t i = 0; i < used; ++i) {
    const Entry& entry = entries_[i];
    if (entry.is_ready.load(std::memory_order_acquire) == 0 || entry.rank != rank) continue;
    if (group.compare(0, sizeof entry.group - 1, entry.group) != 0 || std::strcmp(entry.key, key) != 0) continue;
    if (entry.bytes > *bytes) return RODA_ERR_INVALID;
    if (entry.bytes > 0) std::memcpy(value, arena_ + entry.offset, entry.bytes);
    *bytes = entry.bytes;
    return RODA_OK;
  }
  return RODA_IN_PROGRESS;
}

bool World::barrier(int rank, int count, std::int64_t deadline_ns, const std::function<void()>& meanwhile) {
  const std::uint32_t round = ++slot(rank).barriers;
  ++barrier_changes_;
  wake_all(&barrier_changes_);
  while (true) {
    const std::uint32_t seen = barrier_changes_.load();
    int arrived = 0;
    for (int i = 0; i < size_; ++i) arrived += slot(i).barriers.load() >= round ? 1 : 0;
    if (arrived >= count) return true;
    if (someone_failed() || now_ns() > deadline_ns) return false;
    meanwhile();
    wait_for_change(&barrier_changes_, seen);
  }
}

void World::finish(int rank, Outcome outcome, const std::string& message) {
  Slot& self = slot(rank);
  std::snprintf(self.message, sizeof self.message, "%s", message.c_str());
  self.outcome.store(outcome);
  if (outcome == Outcome::kFailed) failed_.store(true);
  ++barrier_changes_;
  wake_all(&barrier_changes_);
}

}  // namespace roda::conformance
