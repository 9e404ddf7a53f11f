// What it costs to store where a peer has just read: with plain copies, and past the cache.
//
// Nobody is asked for a map of caches or for a processor's ways. Virtual machines show cores under one cache that share
// none, and move them while a job runs; between far cores some processors copy without fetching the lines that they
// write over, and others not. So each rank copies to memory that a peer has read, both ways, and compares the times.
// The ranks take turns at being the peer; no rank waits for another.
#pragma once

#include <roda/sdk/clock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "plugins/base/coarse_clock.h"
#include "plugins/base/copy.h"
#include "transports/shm/segment.h"

namespace roda::shm {

// What it costs one rank to store into the memory of each of its peers. Threads: one at a time.
class StoreCost {
 public:
  StoreCost(int self, int size) : self_(self), peers_(static_cast<std::size_t>(size)) {}

  // The blocks are in the segments: written by this rank (it is `peer`), or by that peer.
  void attach(int peer, ProbeBlock* block) { peers_[static_cast<std::size_t>(peer)].block = block; }

  // The time of a plain copy to what another rank has read, in percent of storing it past the cache: the median of the
  // last three looks; 0 before the first. A few nanoseconds, and some microseconds every 10 ms.
  std::uint32_t percent(int peer) {
    Peer& of = peers_[static_cast<std::size_t>(peer)];
    answer(of);
    go_on();
    const auto [a, b, c] = of.looks;
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  }

 private:
  struct Peer {
    ProbeBlock* block = nullptr;
    std::uint64_t answered = 0;            // its turn that this rank has read for
    std::array<std::uint32_t, 3> looks{};  // percent, the latest first
  };

  static constexpr std::chrono::milliseconds kPause{10};
  // What was read longer ago may have left the reader's cache.
  static constexpr std::uint64_t kFreshNs = 2'000'000;

  static int reader_of(std::uint64_t turn) { return static_cast<int>(turn & 0xffff); }

  // Reads what the peer has written for this rank.
  void answer(Peer& of) {
    const std::uint64_t turn = of.block->turn.load(std::memory_order_acquire);
    if (turn == of.answered || reader_of(turn) != self_) return;
    of.answered = turn;
    for (const auto& half : of.block->halves) touch(half);
    of.block->read_ns.store(sdk::now_ns(), std::memory_order_release);
  }

  // Writes for the next peer, or measures once the peer has read. The block is the reader's until it has.
  void go_on() {
    ProbeBlock& own = *peers_[static_cast<std::size_t>(self_)].block;
    if (waits_) {
      const std::uint64_t read_ns = own.read_ns.load(std::memory_order_acquire);
      if (read_ns < written_ns_) return;
      waits_ = false;
      if (sdk::now_ns() - read_ns < kFreshNs) measure(own, peers_[static_cast<std::size_t>(reader_of(turn_))]);
    }
    const auto now = CoarseClock::now();
    if (now - begun_ < kPause) return;
    begun_ = now;
    auto next = static_cast<std::uint64_t>(reader_of(turn_) + 1) % peers_.size();
    if (static_cast<int>(next) == self_) next = (next + 1) % peers_.size();
    for (auto& half : own.halves) cpu::copy(half, kSource, sizeof half);
    turn_ = ((turn_ >> 16) + 1) << 16 | next;
    written_ns_ = sdk::now_ns();
    own.turn.store(turn_, std::memory_order_release);
    waits_ = true;
  }

  static void measure(ProbeBlock& own, Peer& of) {
    touch(kSource);
    const std::uint64_t plain = time_of(cpu::copy, own.halves[0]);
    touch(kSource);
    const std::uint64_t past = time_of(cpu::copy_streaming, own.halves[1]);
    const auto latest = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(100 * plain / past, 1, 100'000));
    of.looks = {latest, of.looks[0] == 0 ? latest : of.looks[0], of.looks[0] == 0 ? latest : of.looks[1]};
  }
  template <typename Copy>
  static std::uint64_t time_of(Copy copy, std::byte (&half)[ProbeBlock::kHalf]) {
    const std::uint64_t begin = sdk::now_ns();
    copy(half, kSource, sizeof half);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // until all of it is stored
    return std::max<std::uint64_t>(sdk::now_ns() - begin, 1);
  }
  static void touch(const std::byte (&half)[ProbeBlock::kHalf]) {
    for (std::size_t i = 0; i < sizeof half; i += kLine) {
      const volatile std::byte* line = half + i;  // a discarded static_cast to volatile reads nothing
      static_cast<void>(*line);
    }
  }

  alignas(kLine) static constexpr std::byte kSource[ProbeBlock::kHalf]{};

  int self_;
  std::vector<Peer> peers_;
  CoarseClock::time_point begun_{};
  std::uint64_t turn_ = 0;  // counts up; in the last 16 bits who reads
  std::uint64_t written_ns_ = 0;
  bool waits_ = false;
};

}  // namespace roda::shm
