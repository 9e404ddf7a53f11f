// What lies where in a rank's segment. One segment per rank and group, written by its owner but for the parts that are
// marked as the peers'. All ranks of a host run on one machine: native byte order, atomics that are lock-free.
//
//   SegmentHeader
//   SignalLines  [size]      from each sender; the sender writes
//   AccessWord   [size]      of each peer that reaches into the owner's private memory; the peer writes
//   WindowEntry  [kWindows]  of the owner
//   RingHeader   [size]      of the ring from each sender; producer and consumer write a line each
//   ring bytes   [size][ring_bytes], each ring written by its sender
//   heap                     what memory_alloc hands out
#pragma once

#include <roda/abi/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace roda::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;
inline constexpr std::uint64_t kMagic = 0x6d68732d61646f72;  // "roda-shm"
inline constexpr std::uint32_t kLayoutVersion = 1;

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
  alignas(kLine) std::atomic<std::uint32_t> state;  // MemberState
  std::atomic<std::uint32_t> acknowledged;          // the owner's engine has seen that the group is aborted
  roda_error cause;                                 // valid once state is kAborted
};

struct alignas(kLine) SignalLines {
  Word value[kSignals];
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
  std::size_t signals, access, windows, ring_headers, rings, heap;

  Layout(int size, std::uint32_t ring_bytes) {
    const auto n = static_cast<std::size_t>(size);
    signals = sizeof(SegmentHeader);
    access = signals + n * sizeof(SignalLines);
    windows = access + n * sizeof(AccessWord);
    ring_headers = windows + kWindows * sizeof(WindowEntry);
    rings = ring_headers + n * sizeof(RingHeader);
    heap = round_up(rings + n * ring_bytes, std::size_t{2} << 20);
  }

  static constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }
};

}  // namespace roda::shm
