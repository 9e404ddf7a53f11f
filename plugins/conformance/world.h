// What the ranks of one case share, whether they are processes or threads: an exchange, a barrier and their results.
//
// Lies in anonymous shared memory and uses no locks, so that a rank may be killed at any moment.
#pragma once

#include <roda/abi/host.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace roda::conformance {

enum class Outcome : std::uint32_t { kRunning = 0, kPassed, kSkipped, kFailed, kKilled };

// All entries from any rank, unless they say otherwise.
class World {
 public:
  static constexpr int kMaxRanks = 64;

  // Mapped shared; null if there is no memory. Destroyed by the process that made it. For processes that are not forks
  // of one another *descriptor refers to the memory, and stays open until the others have attached to it by its path
  // under /proc.
  static World* create(int size, int* descriptor = nullptr);
  static World* attach(const char* path);
  static void destroy(World* world);

  int size() const { return size_; }

  // For roda_exchange. `group` tells groups and generations apart. False: the store is full.
  bool put(const std::string& group, int rank, const char* key, const void* value, std::size_t bytes);
  int32_t get(const std::string& group, int rank, const char* key, void* value, std::size_t* bytes);

  // Blocks until `count` ranks have called it as often as this one, and calls `meanwhile` every millisecond. False:
  // some rank failed, or the time is over.
  bool barrier(int rank, int count, std::int64_t deadline_ns, const std::function<void()>& meanwhile);

  void finish(int rank, Outcome outcome, const std::string& message);
  Outcome outcome(int rank) const { return slot(rank).outcome.load(); }
  std::string message(int rank) const { return slot(rank).message; }
  bool someone_failed() const { return failed_.load(); }

  // A word of its own for each rank, for cases to tell each other how far they are.
  std::atomic<std::uint32_t>& note(int rank) { return slot(rank).note; }

  // Set by the parent once the process is gone.
  void set_dead(int rank) { slot(rank).dead.store(true); }
  bool is_dead(int rank) const { return slot(rank).dead.load(); }

 private:
  static constexpr std::uint32_t kEntries = 4096;
  static constexpr std::size_t kArena = 32u << 20;

  struct Entry {
    std::atomic<std::uint32_t> is_ready;
    std::int32_t rank;
    std::uint32_t offset;
    std::uint32_t bytes;
    char group[64];
    char key[64];
  };
  struct Slot {
    std::atomic<Outcome> outcome;
    std::atomic<bool> dead;
    std::atomic<std::uint32_t> note;
    std::atomic<std::uint32_t> barriers;
    char message[1500];
  };

  Slot& slot(int rank) { return slots_[rank]; }
  const Slot& slot(int rank) const { return slots_[rank]; }

  int size_;
  std::atomic<bool> failed_;
  std::atomic<std::uint32_t> entries_used_;
  std::atomic<std::uint32_t> arena_used_;
  std::atomic<std::uint32_t> barrier_changes_;
  Slot slots_[kMaxRanks];
  Entry entries_[kEntries];
  char arena_[kArena];
};

// In nanoseconds, by a clock that is the same in all processes.
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace roda::conformance
