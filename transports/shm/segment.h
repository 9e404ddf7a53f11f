// What lies where in a rank's segment. One segment per rank and group, written by its owner but for the parts that are
// marked as the peers'. All ranks of a host run on one machine: native byte order, atomics that are lock-free.
//
//   SegmentHeader
//   SignalLines  [size]      from each sender; the sender writes
//   ProbeBlock               what store_cost.h copies for a peer to read
//   AccessWord   [size]      of each peer that reaches into the owner's private memory; the peer writes
//   WindowEntry  [kWindows]  of the owner
//   RingHeader   [size]      of the ring from each sender; producer and consumer write a line each
//   ring bytes   [size][ring_bytes], each ring written by its sender
//   heap                     what memory_alloc hands out
#pragma once

#include <roda/abi/types.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>

namespace roda::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;
inline constexpr std::uint64_t kMagic = 0x6d68732d61646f72;  // "roda-shm"
inline constexpr std::uint32_t kLayoutVersion = 4;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

struct Nonce {
  std::uint64_t words[2];
  friend bool operator==(const Nonce&, const Nonce&) = default;
};

enum class MemberState : std::uint32_t { kOpen = 0, kAborted = 1, kLeft = 2 };

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t rank;
  std::int32_t size;
  std::uint32_t ring_bytes;
  std::uint64_t heap_offset;
  Nonce nonce;
  // Read by every peer after every signal, so on a line of its own that rarely changes.
  alignas(kLine) std::atomic<std::uint32_t> sleeping;
  alignas(kLine) std::atomic<MemberState> state;
  std::atomic<std::uint32_t> acknowledged;  // the owner's engine has seen that the group is aborted
  roda_error cause;                         // valid once state is kAborted
};

struct alignas(kLine) SignalLines {
  Word value[kSignals];
};

// See store_cost.h. Long enough that processors copy a half as they copy long pieces.
struct alignas(kLine) ProbeBlock {
  static constexpr std::size_t kHalf = 16 << 10;
  Word turn;                    // counts up; the last 16 bits say who reads; the owner writes
  alignas(kLine) Word read_ns;  // CLOCK_MONOTONIC; the reader writes
  alignas(kLine) std::byte halves[2][kHalf];
};

struct alignas(kLine) AccessWord {
  std::atomic<std::uint32_t> busy;
};

// A closed window has no bytes. `offset` is the place in the segment of memory that peers can map, kPrivate otherwise.
struct alignas(kLine) WindowEntry {
  static constexpr std::uint64_t kPrivate = ~std::uint64_t{0};
  Word address;  // in the owner's address space
  Word offset;
  Word bytes;
};

struct RingHeader {
  alignas(kLine) Word tail;  // bytes ever produced
  alignas(kLine) Word head;  // bytes ever consumed
};

// Offsets for a group of `size` ranks.
struct Layout {
  std::size_t signals, probe, access, windows, ring_headers, rings, heap;

  Layout(int size, std::uint32_t ring_bytes) {
    const auto n = static_cast<std::size_t>(size);
    signals = sizeof(SegmentHeader);
    probe = signals + n * sizeof(SignalLines);
    access = probe + sizeof(ProbeBlock);
    windows = access + n * sizeof(AccessWord);
    ring_headers = windows + kWindows * sizeof(WindowEntry);
    rings = ring_headers + n * sizeof(RingHeader);
    heap = round_up(rings + n * ring_bytes, std::size_t{2} << 20);
  }

  // What a segment needs that has little memory to hand out, and short rings.
  static std::uint64_t least_bytes(int size) { return Layout(size, kLeastRing).heap + kLeastHeap; }

  static constexpr std::uint32_t kLeastRing = 4 << 10;
  static constexpr std::uint64_t kLeastHeap = std::uint64_t{32} << 20;
  static constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }
};

// Address space of this process for the segments of one more group: a quarter of what a limit leaves, so that the
// program and further groups find theirs. kNoLimit: there is no limit.
std::uint64_t room_for_group();
// Throws sdk::Failure where the limits of this process leave less than each of `size` members needs.
void check_room(int size, std::uint64_t room);

// Which pages of a segment's heap are handed out. First fit over page-aligned ranges. One thread at a time.
class Heap {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  Heap() = default;
  // Offsets begin + 0 .. begin + bytes, both multiples of a page.
  Heap(std::size_t begin, std::size_t bytes) {
    if (bytes > 0) free_[begin] = bytes;
  }

  // What `bytes` take up.
  static std::size_t in_pages(std::size_t bytes) { return Layout::round_up(bytes > 0 ? bytes : 1, kPage); }
  // Offset of `bytes`, rounded up to pages, or kNone. Aligned to huge pages when that large.
  std::size_t take(std::size_t bytes) {
    const std::size_t asked = bytes;
    bytes = in_pages(bytes);
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      const std::size_t begin = at->first, end = at->first + at->second;
      const std::size_t offset = Layout::round_up(begin, alignment);
      if (offset >= end || bytes > end - offset) continue;
      if (offset > begin) {
        at->second = offset - begin;
      } else {
        free_.erase(at);
      }
      if (offset + bytes < end) free_[offset + bytes] = end - offset - bytes;
      taken_[offset] = asked;
      return offset;
    }
    return kNone;
  }
  // What take(bytes) returned.
  void give_back(std::size_t offset, std::size_t bytes) {
    taken_.erase(offset);
    auto at = free_.emplace(offset, in_pages(bytes)).first;
    if (auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at != free_.begin()) {
      if (auto before = std::prev(at); before->first + before->second == at->first) {
        before->second += at->second;
        free_.erase(at);
      }
    }
  }
  // Offset -> bytes, as asked for, of what is handed out.
  const std::map<std::size_t, std::size_t>& taken() const { return taken_; }

 private:
  static constexpr std::size_t kPage = std::size_t{64} << 10;  // the largest that Linux machines have
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; never adjacent
  std::map<std::size_t, std::size_t> taken_;
};

// A ring of records between one producer and one consumer in different processes. No system calls, no locks.
//
// Memory order: the producer fills a record with plain stores and publishes it by a release store of `tail`; the
// consumer acquires `tail`, reads the record with plain loads and gives its bytes back by a release store of `head`,
// which the producer acquires before it writes there again. Waking a sleeper is a matter of its own: Peer::wake().
enum class RecordKind : std::uint32_t {
  kSkip = 0,  // filler up to the end of the ring
  kEager,     // a whole message
  kAnnounce,  // a long message that waits in the sender's memory
  kClear,     // to the owner of request `to`: stream the data to request `from`
  kData,      // a piece for request `to`
  kFinish,    // to the owner of request `to`: the peer has all it needs
  kGet,       // stream what lies in the window to request `from`
  kPut,       // wants to write into the window; answered by kClear
  kRefuse,    // to the owner of request `to`: a kGet or kPut outside the window
};

struct Record {
  RecordKind kind;
  std::uint32_t payload;  // bytes that follow
  std::uint64_t tag;
  std::uint64_t total;     // bytes of the whole message
  std::uint64_t address;   // in the sender's address space or segment, or an offset in a window
  std::uint32_t from;      // the sender's request
  std::uint32_t to;        // the receiver's request
  std::uint32_t slot = 0;  // window; kAnnounce: 1 when the address is an offset in the sender's segment
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Record) == 48);

// A record with its payload takes whole lines.
inline constexpr std::size_t record_bytes(std::size_t payload) {
  return Layout::round_up(sizeof(Record) + payload, kLine);
}

class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingHeader* header, std::byte* data, std::uint32_t bytes)
      : header_(header), data_(data), bytes_(bytes) {}

  // Room for a record with its payload; null when the ring is full. Nothing is visible before publish().
  Record* reserve(std::size_t payload) {
    std::size_t needed = bytes_needed(payload);
    if (!has_bytes(needed)) return nullptr;
    std::size_t filler = needed - record_bytes(payload);
    if (filler > 0) {
      auto skip = reinterpret_cast<Record*>(data_ + tail_ % bytes_);
      skip->kind = RecordKind::kSkip;
      skip->payload = static_cast<std::uint32_t>(filler - sizeof(Record));
      tail_ += filler;
    }
    auto record = reinterpret_cast<Record*>(data_ + tail_ % bytes_);
    record->payload = static_cast<std::uint32_t>(payload);
    return record;
  }
  void publish(const Record* record) {
    tail_ += record_bytes(record->payload);
    header_->tail.store(tail_, std::memory_order_release);
  }
  // Longest payload that is sure to fit into an empty ring, wherever its end is.
  std::size_t max_payload() const { return bytes_ / 2 - sizeof(Record); }
  bool has_room(std::size_t payload) { return has_bytes(bytes_needed(payload)); }

 private:
  bool has_bytes(std::size_t bytes) {
    if (tail_ + bytes - head_seen_ <= bytes_) return true;
    head_seen_ = header_->head.load(std::memory_order_acquire);
    return tail_ + bytes - head_seen_ <= bytes_;
  }
  // With the filler that is needed when the record doesn't fit before the end.
  std::size_t bytes_needed(std::size_t payload) const {
    std::size_t wanted = record_bytes(payload);
    std::size_t to_end = bytes_ - tail_ % bytes_;
    return wanted <= to_end ? wanted : to_end + wanted;
  }

  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t head_seen_ = 0;
};

class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingHeader* header, std::byte* data, std::uint32_t bytes)
      : header_(header), data_(data), bytes_(bytes) {}

  bool empty() const { return header_->tail.load(std::memory_order_acquire) == head_; }
  // The next record, null when there is none. It stays valid until pop().
  const Record* front() {
    while (!empty()) {
      auto record = reinterpret_cast<const Record*>(data_ + head_ % bytes_);
      if (record->kind != RecordKind::kSkip || !is_sane(*record)) return record;
      pop(*record);
    }
    return nullptr;
  }
  // Lengths are the producer's: false when they don't fit the ring, or what was written of it, which only a broken peer
  // sends.
  bool is_sane(const Record& record) const {
    const std::uint64_t written = header_->tail.load(std::memory_order_acquire) - head_;
    return record_bytes(record.payload) <= std::min(bytes_ - head_ % bytes_, written);
  }
  void pop(const Record& record) {
    head_ += record_bytes(record.payload);
    header_->head.store(head_, std::memory_order_release);
  }

 private:
  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t head_ = 0;
};

inline const std::byte* payload_of(const Record* record) {
  return reinterpret_cast<const std::byte*>(record) + sizeof(Record);
}
inline std::byte* payload_of(Record* record) { return reinterpret_cast<std::byte*>(record) + sizeof(Record); }

// Cross-memory attach: the kernel copies between the private memory of two processes. Any thread.

// True when this kernel and its settings let processes of one user reach into each other; otherwise *reason says what
// forbids it. A guess that keeps capabilities honest: each peer is tried for real when a group forms. Where Yama asks
// for it, declares this process open to its user's other processes.
bool cma_allowed(std::string* reason);

// 0, or an errno. Moves all bytes or fails.
int cma_read(pid_t pid, void* to, std::uint64_t from, std::size_t bytes);
int cma_write(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes);

}  // namespace roda::shm
