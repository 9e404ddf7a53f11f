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

    for (std::uint64_t i = 0; i < count; ++i) {
      Cell& c = cell(at + i);
      RODA_INVARIANT(place_of(c.written.load(std::memory_order_relaxed)) <= at + i,
                     "a place of the log is written once");
      const std::size_t part = std::min(kPayload, record.size() - i * kPayload);
      std::copy_n(record.data() + i * kPayload, part, c.payload);
      c.written.store((at + i + 1) << kLengthBits | record.size(), std::memory_order_release);
    }
    return Append::kDone;
  }

  // Whether the next record is there. Where it is not, a look at one cache line.
  bool has_record() const {
    if (!is_written(next_)) return false;
    const std::uint64_t count = cells_for(next_length());
    for (std::uint64_t i = 1; i < count; ++i) {
      if (!is_written(next_ + i)) return false;
    }
    return true;
  }

  // The next record, copied; false when there is none yet.
  bool read(std::vector<std::byte>* record) {
    if (!has_record()) return false;
    const std::size_t length = next_length();
    RODA_INVARIANT(length <= max_record(header_->cells), "a record of the log is no longer than the log takes");
    const std::uint64_t count = cells_for(length);
    record->resize(length);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t part = std::min(kPayload, length - i * kPayload);
      std::copy_n(cell(next_ + i).payload, part, record->begin() + static_cast<std::ptrdiff_t>(i * kPayload));
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
  static constexpr std::size_t max_record(std::uint32_t cells) { return std::min(cells / 4 * kPayload, kMostLength); }

 private:
  static constexpr int kLengthBits = 16;
  static constexpr std::size_t kMostLength = (std::size_t{1} << kLengthBits) - 1;
  struct Header {
    std::uint32_t cells;
    std::uint32_t readers;
    alignas(64) std::atomic<std::uint64_t> tail;  // cells handed out
  };
  // A record of one cell that is short lies in one cache line.
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> written;  // position + 1 once the cell is written; below it the record's length
    std::byte payload[kPayload];
  };
  struct alignas(64) Position {
    std::atomic<std::uint64_t> value;
  };
  static constexpr std::size_t cells_for(std::size_t bytes) {
    return std::max<std::size_t>(1, (bytes + kPayload - 1) / kPayload);
  }
  static constexpr std::uint64_t place_of(std::uint64_t written) { return written >> kLengthBits; }
  bool is_written(std::uint64_t position) const {
    return place_of(cell(position).written.load(std::memory_order_acquire)) == position + 1;
  }
  std::size_t next_length() const { return cell(next_).written.load(std::memory_order_relaxed) & kMostLength; }
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
