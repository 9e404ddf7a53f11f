// The log of one host: a ring of cells in shared memory that many ranks append to and every rank reads in one order.
//
// The place of a record is fixed by one compare-and-swap on the tail; it is published cell by cell through the cells'
// sequence numbers (after D. Vyukov's bounded queue), so appending takes no lock and a reader never sees half a record.
// A rank that dies between the two leaves a hole that readers wait at: whoever watches the ranks ends the job then.
//
// Threads: append from any number of processes, one thread at a time in each; read by one thread at a time per reader.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "plugins/base/invariant.h"

namespace roda::control {

class LogRing {
 public:
  static constexpr std::size_t kCellBytes = 128;
  static constexpr std::size_t kPayload = kCellBytes - sizeof(std::uint64_t);

  // Bytes of shared memory for `cells` (a power of two) and `readers`.
  static std::size_t bytes_for(std::uint32_t cells, std::uint32_t readers) {
    return sizeof(Header) + readers * sizeof(Position) + std::size_t{cells} * sizeof(Cell);
  }

  // Makes zeroed memory a ring. Once, before anybody attaches.
  static void format(void* memory, std::uint32_t cells, std::uint32_t readers) {
    auto* header = new (memory) Header{};
    header->cells = cells;
    header->readers = readers;
  }

  LogRing() = default;
  // `reader`: which of the readers this is. The memory is mapped for the object's life, aligned to a cache line.
  LogRing(void* memory, std::uint32_t reader) : reader_(reader) {
    static_assert(sizeof(Cell) == kCellBytes && std::atomic<std::uint64_t>::is_always_lock_free);
    auto* base = static_cast<std::byte*>(memory);
    header_ = reinterpret_cast<Header*>(base);
    positions_ = reinterpret_cast<Position*>(base + sizeof(Header));
    cells_ = reinterpret_cast<Cell*>(base + sizeof(Header) + header_->readers * sizeof(Position));
    mask_ = header_->cells - 1;
  }

  enum class Append : std::uint8_t { kDone, kFull, kTooLong };
  // kFull: a reader lags a whole ring behind (slowest_reader() names it); read, wake it, retry.
  Append append(std::span<const std::byte> record) {
    if (record.size() > max_record(header_->cells)) return Append::kTooLong;
    const std::uint64_t count = cells_for(record.size());
    std::uint64_t at = header_->tail.load(std::memory_order_relaxed);
    do {
      if (at + count > known_slowest_ + header_->cells) {
        known_slowest_ = slowest();
        if (at + count > known_slowest_ + header_->cells) return Append::kFull;
      }
    } while (
        !header_->tail.compare_exchange_weak(at, at + count, std::memory_order_acq_rel, std::memory_order_relaxed));

    const std::uint64_t length = record.size();
    std::size_t done = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      Cell& c = cell(at + i);
      RODA_INVARIANT(c.sequence.load(std::memory_order_relaxed) <= at + i, "a place of the log is written once");
      std::size_t offset = 0;
      if (i == 0) {
        std::memcpy(c.payload, &length, kLength);
        offset = kLength;
      }
      const std::size_t part = std::min(kPayload - offset, record.size() - done);
      std::copy_n(record.begin() + static_cast<std::ptrdiff_t>(done), part, c.payload + offset);
      done += part;
      c.sequence.store(at + i + 1, std::memory_order_release);
    }
    return Append::kDone;
  }

  // The next record, copied; false when there is none yet.
  bool read(std::vector<std::byte>* record) {
    const Cell& first = cell(next_);
    if (first.sequence.load(std::memory_order_acquire) != next_ + 1) return false;
    std::uint64_t length = 0;
    std::memcpy(&length, first.payload, kLength);
    RODA_INVARIANT(length <= max_record(header_->cells), "a record of the log is no longer than the log takes");
    const std::uint64_t count = cells_for(length);
    for (std::uint64_t i = 1; i < count; ++i) {
      if (cell(next_ + i).sequence.load(std::memory_order_acquire) != next_ + i + 1) return false;
    }
    record->resize(length);
    std::size_t done = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t offset = i == 0 ? kLength : 0;
      const std::size_t part = std::min(kPayload - offset, static_cast<std::size_t>(length) - done);
      std::copy_n(cell(next_ + i).payload + offset, part, record->begin() + static_cast<std::ptrdiff_t>(done));
      done += part;
    }
    RODA_INVARIANT(positions_[reader_].value.load(std::memory_order_relaxed) == next_,
                   "each reader of the log moves its own place alone");
    next_ += count;
    positions_[reader_].value.store(next_, std::memory_order_release);
    return true;
  }

  // True when read() would succeed or a record is being written.
  bool pending() const { return header_->tail.load(std::memory_order_seq_cst) != next_; }

  std::uint32_t slowest_reader() const {
    std::uint32_t at = 0;
    for (std::uint32_t r = 1; r < header_->readers; ++r) {
      if (positions_[r].value.load(std::memory_order_relaxed) < positions_[at].value.load(std::memory_order_relaxed)) {
        at = r;
      }
    }
    return at;
  }

  // Longest record that append takes, in a ring of so many cells: several fit.
  static constexpr std::size_t max_record(std::uint32_t cells) { return cells / 4 * kPayload - sizeof(std::uint64_t); }

 private:
  struct Header {
    std::uint32_t cells;
    std::uint32_t readers;
    alignas(64) std::atomic<std::uint64_t> tail;  // cells handed out
  };
  struct Cell {
    std::atomic<std::uint64_t> sequence;  // position + 1 once the cell is written
    std::byte payload[kPayload];
  };
  struct alignas(64) Position {
    std::atomic<std::uint64_t> value;
  };
  // A record starts with its length; see wire::RecordHeader, whose own length this repeats so that the ring needs to
  // know nothing of records.
  static constexpr std::size_t kLength = sizeof(std::uint64_t);
  static constexpr std::size_t cells_for(std::size_t bytes) { return (bytes + kLength + kPayload - 1) / kPayload; }
  std::uint64_t slowest() const {
    std::uint64_t low = UINT64_MAX;
    for (std::uint32_t r = 0; r < header_->readers; ++r) {
      low = std::min(low, positions_[r].value.load(std::memory_order_acquire));
    }
    return low;
  }

  Cell& cell(std::uint64_t position) const { return cells_[position & mask_]; }

  Header* header_ = nullptr;
  Position* positions_ = nullptr;  // [readers] cells read
  Cell* cells_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t reader_ = 0;
  std::uint64_t next_ = 0;           // this reader's place
  std::uint64_t known_slowest_ = 0;  // a lower bound, so that the readers' lines are seldom touched
};

}  // namespace roda::control
