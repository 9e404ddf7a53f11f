#include "core/control/log_ring.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace roda::control {

struct LogRing::Header {
  std::uint32_t cells;
  std::uint32_t readers;
  alignas(64) std::atomic<std::uint64_t> tail;  // cells handed out
};

struct LogRing::Cell {
  std::atomic<std::uint64_t> sequence;  // position + 1 once the cell is written
  std::byte payload[kPayload];
};

namespace {
// A record starts with its length; see wire::RecordHeader, whose own length this repeats so that the ring needs to know
// nothing of records.
constexpr std::size_t kLength = sizeof(std::uint64_t);
constexpr std::size_t cells_for(std::size_t bytes) {
  return (bytes + kLength + LogRing::kPayload - 1) / LogRing::kPayload;
}
}  // namespace

std::size_t LogRing::bytes_for(std::uint32_t cells, std::uint32_t readers) {
  return sizeof(Header) + readers * sizeof(Position) + std::size_t{cells} * sizeof(Cell);
}

void LogRing::format(void* memory, std::uint32_t cells, std::uint32_t readers) {
  auto* header = new (memory) Header{};
  header->cells = cells;
  header->readers = readers;
}

LogRing::LogRing(void* memory, std::uint32_t reader) : reader_(reader) {
  static_assert(sizeof(Cell) == kCellBytes && std::atomic<std::uint64_t>::is_always_lock_free);
  auto* base = static_cast<std::byte*>(memory);
  header_ = reinterpret_cast<Header*>(base);
  positions_ = reinterpret_cast<Position*>(base + sizeof(Header));
  cells_ = reinterpret_cast<Cell*>(base + sizeof(Header) + header_->readers * sizeof(Position));
  mask_ = header_->cells - 1;
}

LogRing::Cell& LogRing::cell(std::uint64_t position) const { return cells_[position & mask_]; }

std::uint64_t LogRing::slowest() const {
  std::uint64_t low = UINT64_MAX;
  for (std::uint32_t r = 0; r < header_->readers; ++r) {
    low = std::min(low, positions_[r].value.load(std::memory_order_acquire));
  }
  return low;
}

std::uint32_t LogRing::slowest_reader() const {
  std::uint32_t at = 0;
  for (std::uint32_t r = 1; r < header_->readers; ++r) {
    if (positions_[r].value.load(std::memory_order_relaxed) < positions_[at].value.load(std::memory_order_relaxed)) {
      at = r;
    }
  }
  return at;
}

LogRing::Append LogRing::append(std::span<const std::byte> record) {
  if (record.size() > max_record(header_->cells)) return Append::kTooLong;
  const std::uint64_t count = cells_for(record.size());
  std::uint64_t at = header_->tail.load(std::memory_order_relaxed);
  do {
    if (at + count > known_slowest_ + header_->cells) {
      known_slowest_ = slowest();
      if (at + count > known_slowest_ + header_->cells) return Append::kFull;
    }
  } while (!header_->tail.compare_exchange_weak(at, at + count, std::memory_order_acq_rel, std::memory_order_relaxed));

  const std::uint64_t length = record.size();
  std::size_t done = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Cell& c = cell(at + i);
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

bool LogRing::pending() const { return header_->tail.load(std::memory_order_seq_cst) != next_; }

bool LogRing::read(std::vector<std::byte>* record) {
  const Cell& first = cell(next_);
  if (first.sequence.load(std::memory_order_acquire) != next_ + 1) return false;
  std::uint64_t length = 0;
  std::memcpy(&length, first.payload, kLength);
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
  next_ += count;
  positions_[reader_].value.store(next_, std::memory_order_release);
  return true;
}

}  // namespace roda::control
