// Traffic: the messages and signals of one group's ranks so far, which tell whose next op can run. A program's ops wait
// for nothing else, but for a send that still reads the memory that an op would write over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/schedule/program.h"

namespace roda::schedule {

inline int most_lanes(const std::vector<Program>& ranks) {
  std::size_t most = 1;
  for (const Program& program : ranks) most = std::max(most, program.lanes.size());
  return static_cast<int>(most);
}

class Traffic {
 public:
  Traffic(int size, int lanes)
      : size_(size),
        lanes_(lanes),
        channels_(pairs() * static_cast<std::size_t>(lanes)),
        signals_(pairs() * static_cast<std::size_t>(kMaxSignals)) {}

  bool ready(int rank, int lane, const Op& op) const {
    if (op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce) {
      const Channel& from = channels_[channel(op.peer, rank, lane)];
      return from.received < from.sent;
    }
    bool all = true;
    if (op.kind == OpKind::kWait) for_peers(rank, op, [&](int peer) { all &= value(peer, rank, op) >= op.value; });
    return all;
  }

  // The op runs.
  void pass(int rank, int lane, const Op& op) {
    if (op.kind == OpKind::kSend) ++channels_[channel(rank, op.peer, lane)].sent;
    if (op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce) ++channels_[channel(op.peer, rank, lane)].received;
    if (op.kind != OpKind::kSignal) return;
    for_peers(rank, op, [&](int peer) { signals_[signal(rank, peer, op.signal)] = op.value; });
  }

  // The peer that a signal or wait names, or all but the rank.
  void for_peers(int rank, const Op& op, auto f) const {
    if (op.peer != kAllPeers) return f(op.peer);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank) f(peer);
    }
  }

  // The value that the peer gave the op's signal last.
  std::uint32_t value(int peer, int rank, const Op& op) const { return signals_[signal(peer, rank, op.signal)]; }

  // Numbers of the channel between equal lanes of two ranks, and of a signal.
  std::size_t channel(int from, int to, int lane) const {
    return static_cast<std::size_t>((from * size_ + to) * lanes_ + lane);
  }
  std::size_t signal(int from, int to, int index) const {
    return static_cast<std::size_t>((from * size_ + to) * kMaxSignals + index);
  }
  std::size_t channels() const { return channels_.size(); }
  std::size_t signals() const { return signals_.size(); }

 private:
  struct Channel {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };
  std::size_t pairs() const { return static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_); }

  int size_;
  int lanes_;
  std::vector<Channel> channels_;
  std::vector<std::uint32_t> signals_;  // what each was set to last
};

}  // namespace roda::schedule
