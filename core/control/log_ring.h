// The log of one host: a ring of cells in shared memory that many ranks append to and every rank reads in one order.
//
// The place of a record is fixed by one compare-and-swap on the tail; it is published cell by cell through the cells'
// sequence numbers (after D. Vyukov's bounded queue), so appending takes no lock and a reader never sees half a record.
// A rank that dies between the two leaves a hole that readers wait at: whoever watches the ranks ends the job then.
//
// Threads: append from any number of processes, one thread at a time in each; read by one thread at a time per reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace roda::control {

class LogRing {
 public:
  static constexpr std::size_t kCellBytes = 128;
  static constexpr std::size_t kPayload = kCellBytes - sizeof(std::uint64_t);

  // Bytes of shared memory for `cells` (a power of two) and `readers`.
  static std::size_t bytes_for(std::uint32_t cells, std::uint32_t readers);
  // Makes zeroed memory a ring. Once, before anybody attaches.
  static void format(void* memory, std::uint32_t cells, std::uint32_t readers);

  LogRing() = default;
  // `reader`: which of the readers this is. The memory is mapped for the object's life, aligned to a cache line.
  LogRing(void* memory, std::uint32_t reader);

  enum class Append : std::uint8_t { kDone, kFull, kTooLong };
  // kFull: a reader lags a whole ring behind (slowest_reader() names it); read, wake it, retry.
  Append append(std::span<const std::byte> record);

  // The next record, copied; false when there is none yet.
  bool read(std::vector<std::byte>* record);
  // True when read() would succeed or a record is being written.
  bool pending() const;
  std::uint32_t slowest_reader() const;
  // Longest record that append takes, in a ring of so many cells: several fit.
  static constexpr std::size_t max_record(std::uint32_t cells) { return cells / 4 * kPayload - sizeof(std::uint64_t); }

 private:
  struct Header;
  struct Cell;
  struct alignas(64) Position {
    std::atomic<std::uint64_t> value;
  };
  std::uint64_t slowest() const;
  Cell& cell(std::uint64_t position) const;

  Header* header_ = nullptr;
  Position* positions_ = nullptr;  // [readers] cells read
  Cell* cells_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t reader_ = 0;
  std::uint64_t next_ = 0;           // this reader's place
  std::uint64_t known_slowest_ = 0;  // a lower bound, so that the readers' lines are seldom touched
};

}  // namespace roda::control
