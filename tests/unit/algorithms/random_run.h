// Runs the schedules of all ranks on numbers, in a random order of steps: what may happen, without any proof. Knows
// nothing of how the verifier works.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// For valid indices only (verifier::check has seen them).
class RandomRun {
 public:
  RandomRun(const std::vector<Schedule>& ranks, std::mt19937& random) : ranks_(ranks), random_(random) {
    for (const Schedule& schedule : ranks) {
      Rank rank;
      for (auto& space : rank.memory) space.assign(64, 0);
      for (auto& space : rank.memory) std::generate(space.begin(), space.end(), [&] { return draw(); });
      fill(schedule, &rank);
      rank.lanes.resize(schedule.lanes.size());
      rank.result = rank.memory[1];
      state_.push_back(rank);
    }
    signals_.resize(ranks.size() * ranks.size() * kMaxSignals);
  }

  // True when every rank ends, with the right result.
  bool run() {
    while (true) {
      std::vector<std::pair<std::size_t, std::size_t>> able;
      bool all_ended = true;
      for (std::size_t rank = 0; rank < state_.size(); ++rank) {
        end_if_done(rank);
        all_ended = all_ended && state_[rank].ended;
        for (std::size_t lane = 0; lane < state_[rank].lanes.size(); ++lane) {
          if (can_move(rank, lane)) able.emplace_back(rank, lane);
        }
      }
      if (all_ended) return right();
      if (able.empty()) return false;
      const auto [rank, lane] = able[draw() % able.size()];
      move(rank, lane);
    }
  }

 private:
  using Number = std::uint64_t;  // sums wrap around: exact in any order
  using Data = std::vector<Number>;
  struct Message {
    std::size_t from, to, lane;
    Range range;
    bool taken_early;  // buffered: the sender is free at once
    Data data;
    bool received = false;
  };
  struct LaneState {
    std::size_t next = 0;
    std::vector<std::size_t> sends;
  };
  struct Rank {
    Data memory[3];
    std::vector<LaneState> lanes;
    bool ended = false;
    Data result;
    std::vector<std::size_t> waited = std::vector<std::size_t>(64 * kMaxSignals);
  };

  Number draw() { return std::uniform_int_distribution<Number>()(random_); }

  static Number contribution(int rank, int piece) {
    return (static_cast<Number>(rank) + 1) * 0x9e3779b97f4a7c15u ^
           (static_cast<Number>(piece) + 7) * 0xc2b2ae3d27d4eb4fu;
  }

  static void fill(const Schedule& s, Rank* rank) {
    for (int i = 0; i < s.chunks; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool alltoall = s.collective == Collective::kAlltoall;
      rank->memory[0][at] = contribution(s.rank, alltoall ? s.rank * 64 + i : i);
      const bool holds = (s.collective == Collective::kAllreduce && s.in_place) ||
                         (s.collective == Collective::kBroadcast && s.rank == s.root) ||
                         (s.collective == Collective::kAllgather && s.rank == i);
      if (holds) rank->memory[1][at] = contribution(s.rank, i);
    }
  }

  Number sum(int piece) const {
    Number sum = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) sum += contribution(static_cast<int>(rank), piece);
    return sum;
  }

  bool right() const {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Schedule& s = ranks_[r];
      const Data& got = state_[r].result;
      const int chunks = s.collective == Collective::kBarrier            ? 0
                         : is_for_root(s.collective) && s.rank != s.root ? 0
                         : s.collective == Collective::kReduceScatter    ? 1
                                                                         : s.chunks;
      for (int i = 0; i < chunks; ++i) {
        Number want = sum(i);
        if (s.collective == Collective::kReduceScatter) want = sum(s.rank);
        if (s.collective == Collective::kBroadcast) want = contribution(s.root, i);
        if (s.collective == Collective::kAllgather) want = contribution(i, i);
        if (s.collective == Collective::kAlltoall) want = contribution(i, i * 64 + s.rank);
        if (got[static_cast<std::size_t>(i)] != want) return false;
      }
    }
    return true;
  }

  Number* at(std::size_t rank, const Range& range, int i) {
    return &state_[rank].memory[static_cast<std::size_t>(range.space)][static_cast<std::size_t>(range.first + i)];
  }

  static bool overlap(const Range& a, const Range& b) {
    return a.space == b.space && a.first < b.first + b.count && b.first < a.first + a.count;
  }

  bool can_move(std::size_t rank, std::size_t lane) {
    const LaneState& state = state_[rank].lanes[lane];
    const std::vector<Step>& steps = ranks_[rank].lanes[lane].steps;
    if (state.next == steps.size()) return false;
    const Step& step = steps[state.next];
    for (const std::size_t id : state.sends) {
      const Message& message = messages_[id];
      const bool writes = step.kind != StepKind::kSend && step.kind != StepKind::kPut;
      if (writes && !message.taken_early && !message.received && overlap(message.range, step.dst)) return false;
    }
    if (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) return oldest(rank, lane, step) >= 0;
    if (step.kind != StepKind::kWait) return true;
    for (const std::size_t peer : peers(rank, step)) {
      if (signals_[index(peer, rank, step)] <= state_[rank].waited[peer * kMaxSignals + number(step)]) return false;
    }
    return true;
  }

  static std::size_t number(const Step& step) { return static_cast<std::size_t>(step.signal); }
  std::size_t index(std::size_t from, std::size_t to, const Step& step) const {
    return (from * ranks_.size() + to) * kMaxSignals + number(step);
  }
  std::vector<std::size_t> peers(std::size_t rank, const Step& step) const {
    if (step.peer != kAllPeers) return {static_cast<std::size_t>(step.peer)};
    std::vector<std::size_t> all;
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (peer != rank) all.push_back(peer);
    }
    return all;
  }

  int oldest(std::size_t rank, std::size_t lane, const Step& step) const {
    for (std::size_t id = 0; id < messages_.size(); ++id) {
      const Message& m = messages_[id];
      if (!m.received && m.from == static_cast<std::size_t>(step.peer) && m.to == rank && m.lane == lane) {
        return static_cast<int>(id);
      }
    }
    return -1;
  }

  Data read(std::size_t rank, const Range& range) {
    Data data;
    for (int i = 0; i < range.count; ++i) data.push_back(*at(rank, range, i));
    return data;
  }
  void store(std::size_t rank, const Range& range, const Data& data, const Data* added = nullptr) {
    for (int i = 0; i < range.count; ++i) {
      const auto n = static_cast<std::size_t>(i);
      *at(rank, range, i) = data[n] + (added != nullptr ? (*added)[n] : 0);
    }
  }

  void move(std::size_t rank, std::size_t lane) {
    LaneState& state = state_[rank].lanes[lane];
    const Step& step = ranks_[rank].lanes[lane].steps[state.next++];
    const auto peer = static_cast<std::size_t>(step.peer);
    switch (step.kind) {
      case StepKind::kSend:
        state.sends.push_back(messages_.size());
        messages_.push_back({rank, peer, lane, step.src, draw() % 2 == 0, read(rank, step.src)});
        break;
      case StepKind::kRecv:
      case StepKind::kRecvReduce: {
        Message& m = messages_[static_cast<std::size_t>(oldest(rank, lane, step))];
        m.received = true;
        if (!m.taken_early) m.data = read(m.from, m.range);
        m.data.resize(static_cast<std::size_t>(step.dst.count), 1);
        const Data own = step.kind == StepKind::kRecv ? Data() : read(rank, step.src);
        store(rank, step.dst, m.data, step.kind == StepKind::kRecv ? nullptr : &own);
        break;
      }
      case StepKind::kCopy:
      case StepKind::kGet:
        store(rank, step.dst, read(step.kind == StepKind::kGet ? peer : rank, step.src));
        break;
      case StepKind::kReduce:
      case StepKind::kGetReduce: {
        const Data own = read(rank, step.dst);
        store(rank, step.dst, read(step.kind == StepKind::kGetReduce ? peer : rank, step.src), &own);
        break;
      }
      case StepKind::kPut:
        store(peer, step.dst, read(rank, step.src));
        break;
      case StepKind::kSignal:
        for (const std::size_t other : peers(rank, step)) ++signals_[index(rank, other, step)];
        break;
      case StepKind::kWait:
        for (const std::size_t other : peers(rank, step)) ++state_[rank].waited[other * kMaxSignals + number(step)];
        break;
      case StepKind::kDots:  // Adasum's are not run here: their results are no sums of whole numbers
      case StepKind::kWeigh:
      case StepKind::kRound:  // nor are those in wire formats
        break;
    }
  }

  // The rank's user takes the result away and writes something else into the memory.
  void end_if_done(std::size_t rank) {
    Rank& state = state_[rank];
    if (state.ended) return;
    for (std::size_t lane = 0; lane < state.lanes.size(); ++lane) {
      if (state.lanes[lane].next < ranks_[rank].lanes[lane].steps.size()) return;
      for (const std::size_t id : state.lanes[lane].sends) {
        if (!messages_[id].taken_early && !messages_[id].received) return;
      }
    }
    state.ended = true;
    state.result = state.memory[1];
    for (Number& n : state.memory[1]) n = draw();
    if (!ranks_[rank].reads_linger) {
      for (Number& n : state.memory[0]) n = draw();
    }
  }

  const std::vector<Schedule>& ranks_;
  std::mt19937& random_;
  std::vector<Rank> state_;
  std::vector<Message> messages_;
  std::vector<std::size_t> signals_;
};

}  // namespace roda::schedule
