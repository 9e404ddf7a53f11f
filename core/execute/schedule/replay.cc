#include "core/execute/schedule/compiler.h"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace roda::execute {

using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

Operand data_operand(const Range& range) {
  Operand operand;
  operand.space = operand.extent = range.space == Space::kScratch ? Space::kOutput : range.space;
  operand.first = range.first;
  operand.count = range.count;
  return operand;
}

}  // namespace

std::optional<Operand> ScratchLabels::read(const Range& range) const {
  if (range.space != Space::kScratch || range.count == 0) return data_operand(range);
  const Label& head = labels_[index(range.first)];
  for (std::int32_t i = 0; i < range.count; ++i) {
    const Label& label = labels_[index(range.first + i)];
    const bool together = label.set && label.extent == head.extent && label.chunk == head.chunk + i &&
                          label.unit == head.unit && label.unit_first == head.unit_first;
    if (!together) return std::nullopt;
  }
  return Operand{Space::kScratch, head.extent, head.chunk, range.count, head.unit, head.unit_first, false};
}

Operand ScratchLabels::write(const Range& range, const Operand& like) {
  if (range.space != Space::kScratch || range.count == 0) return data_operand(range);
  const auto old = read(range);
  if (old && old->extent == like.extent && old->first == like.first) return *old;
  forget_neighbours(range);
  for (std::int32_t i = 0; i < range.count; ++i) {
    labels_[index(range.first + i)] = {true, like.extent, like.first + i, range.first, like.first};
  }
  return {Space::kScratch, like.extent, like.first, range.count, range.first, like.first, false};
}

// Chunks of one unit lie back to back from where it begins, not each in a place of its own, so writing a new unit over
// a part of an old one may hit the rest of it.
void ScratchLabels::forget_neighbours(const Range& range) {
  for (std::int32_t i = 0; i < range.count; ++i) {
    const Label hit = labels_[index(range.first + i)];
    if (!hit.set) continue;
    for (Label& label : labels_) {
      if (label.unit == hit.unit && label.unit_first == hit.unit_first && label.extent == hit.extent) label.set = false;
    }
  }
}

namespace {

// The length of a message in words that mean the same on both sides; see carried() and received().
struct Message {
  Operand data;
  int sender = 0;
};

// One rank on its way through its schedule.
struct Player {
  Schedule schedule;
  ScratchLabels labels{0};
  std::vector<std::size_t> next;                     // per lane
  std::vector<std::map<int, std::uint32_t>> waited;  // per lane: (peer * kMaxSignals + signal) -> waits
};

class Replay {
 public:
  Replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result)
      : rank_(rank), size_(size), result_(*result) {
    for (int r = 0; r < size; ++r) {
      Player player;
      player.schedule = algorithm.make(r, size, root);
      player.labels = ScratchLabels(player.schedule.scratch_chunks);
      player.next.resize(player.schedule.lanes.size());
      player.waited.resize(player.schedule.lanes.size());
      players_.push_back(std::move(player));
    }
    signals_.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * schedule::kMaxSignals);
    prepare_result();
  }

  Status run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < size_; ++r) {
        for (std::size_t lane = 0; lane < players_[index(r)].next.size(); ++lane) moved |= run_lane(r, lane);
      }
      RODA_RETURN_IF_ERROR(error_);
    }
    for (const Player& player : players_) {
      for (std::size_t lane = 0; lane < player.next.size(); ++lane) {
        if (player.next[lane] < player.schedule.lanes[lane].steps.size()) {
          return Status::unsupported(name() + ": the schedule never ends");
        }
      }
    }
    return {};
  }

 private:
  const std::string& name() const { return players_[index(rank_)].schedule.algorithm; }

  void prepare_result() {
    const Schedule& mine = players_[index(rank_)].schedule;
    for (const auto& lane : mine.lanes) result_.steps.emplace_back(lane.steps.size());
    const Space spaces[2] = {Space::kInput, Space::kOutput};
    for (int s = 0; s < 2; ++s) {
      const std::size_t chunks = index(chunks_of(mine.collective, spaces[s], mine.chunks, size_));
      result_.first_peer_access[s].resize(chunks);
      result_.last_peer_access[s].resize(chunks);
    }
    result_.read_by.resize(index(size_));
    result_.reads_from.resize(index(size_));
    for (const Player& player : players_) result_.reads_linger.push_back(player.schedule.reads_linger);
  }

  std::uint32_t& signals(int sender, int receiver, int signal) {
    return signals_[index((sender * size_ + receiver) * schedule::kMaxSignals + signal)];
  }

  // Runs the lane until it must wait. True when it moved.
  bool run_lane(int r, std::size_t lane) {
    Player& player = players_[index(r)];
    const auto& steps = player.schedule.lanes[lane].steps;
    const std::size_t before = player.next[lane];
    while (error_.ok() && player.next[lane] < steps.size() && play(r, lane, steps[player.next[lane]])) {
      if (r == rank_) result_.steps[lane][player.next[lane]].time = ++time_;
      ++player.next[lane];
    }
    return player.next[lane] != before;
  }

  // False when the step can't run yet.
  bool play(int r, std::size_t lane, const Step& step) {
    Player& player = players_[index(r)];
    switch (step.kind) {
      case StepKind::kSend:
        if (auto data = read(r, step.src)) messages_[{r, step.peer, lane}].push_back({*data, r});
        return error_.ok();
      case StepKind::kRecv:
      case StepKind::kRecvReduce: {
        auto& queue = messages_[{step.peer, r, lane}];
        if (queue.empty()) return false;
        receive(r, lane, step, queue.front());
        queue.pop_front();
        return error_.ok();
      }
      case StepKind::kCopy:
      case StepKind::kWeigh:
        if (auto data = read(r, step.src)) player.labels.write(step.dst, *data);
        return error_.ok();
      case StepKind::kReduce:
      case StepKind::kDots:
        return true;
      case StepKind::kGet:
      case StepKind::kGetReduce:
        touch(r, step.peer, step.src, true);
        if (step.kind == StepKind::kGet) player.labels.write(step.dst, fetched(r, step));
        return error_.ok();
      case StepKind::kPut:
        touch(r, step.peer, step.dst, false);
        return error_.ok();
      case StepKind::kSignal:
        for_peers(r, step.peer, [&](int peer) { ++signals(r, peer, step.signal); });
        return true;
      case StepKind::kWait:
        return wait(r, lane, step);
      case StepKind::kCall:  // no algorithm makes one
        break;
    }
    return false;
  }

  template <typename F>
  void for_peers(int r, int peer, F f) {
    if (peer != schedule::kAllPeers) return f(peer);
    for (int p = 0; p < size_; ++p) {
      if (p != r) f(p);
    }
  }

  bool wait(int r, std::size_t lane, const Step& step) {
    auto& waited = players_[index(r)].waited[lane];
    bool all = true;
    for_peers(r, step.peer, [&](int peer) {
      all &= signals(peer, r, step.signal) > waited[peer * schedule::kMaxSignals + step.signal];
    });
    if (all) for_peers(r, step.peer, [&](int peer) { ++waited[peer * schedule::kMaxSignals + step.signal]; });
    return all;
  }

  std::optional<Operand> read(int r, const Range& range) {
    auto data = players_[index(r)].labels.read(range);
    if (!data) error_ = Status::unsupported(name() + kScatteredScratch);
    return data;
  }

  // `range` of the owner's window is touched by rank r.
  void touch(int r, int owner, const Range& range, bool is_read) {
    if (range.space == Space::kScratch) {
      error_ = Status::unsupported(name() + ": peers reach into Scratch");
      return;
    }
    ++time_;
    if (owner == rank_) {
      const bool output = range.space == Space::kOutput;
      for (std::size_t c = index(range.first); c < index(range.first + range.count); ++c) {
        std::uint64_t& first = result_.first_peer_access[output][c];
        if (first == 0) first = time_;
        result_.last_peer_access[output][c] = time_;
      }
      if (is_read) result_.read_by[index(r)] = true;
    }
    if (r == rank_ && is_read) result_.reads_from[index(owner)] = true;
  }

  // Extent of a peer's chunks, said in this rank's own chunks.
  Operand fetched(int r, const Step& step) {
    const auto data = players_[index(step.peer)].labels.read(step.src);
    return translate(r, {*data, step.peer});
  }

  Operand translate(int r, const Message& message) {
    Operand data = message.data;
    data.space = data.extent;
    const Collective collective = players_[index(r)].schedule.collective;
    if (data.count == 0) return data;
    if (schedule::entry_of(collective).output == RODA_OWN_PART && data.extent == Space::kOutput) {
      data.space = data.extent = Space::kInput;
      data.first = message.sender;
    } else if (schedule::is_between_pairs(collective)) {
      // The sender's Input[p] is what it sends to p, its Output[p] what it got from p.
      const bool out = data.extent == Space::kInput;
      const int from = out ? message.sender : data.first;
      const int to = out ? data.first : message.sender;
      data.space = data.extent = to == r ? Space::kOutput : Space::kInput;
      data.first = to == r ? from : to;
      if (data.count != 1 || (to != r && from != r)) {
        error_ = Status::unsupported(name() + ": forwards chunks whose length only other ranks know");
      }
    }
    return data;
  }

  void receive(int r, std::size_t lane, const Step& step, const Message& message) {
    Player& player = players_[index(r)];
    if (step.dst.space != Space::kScratch || step.dst.count == 0) return;
    if (step.kind == StepKind::kRecvReduce) {
      if (auto data = read(r, step.src)) player.labels.write(step.dst, *data);
      return;
    }
    const Operand data = translate(r, message);
    player.labels.write(step.dst, data);
    if (r == rank_) result_.steps[lane][player.next[lane]].received = data;
  }

  int rank_;
  int size_;
  ReplayResult& result_;
  std::vector<Player> players_;
  std::vector<std::uint32_t> signals_;
  std::map<std::tuple<int, int, std::size_t>, std::deque<Message>> messages_;
  std::uint64_t time_ = 0;
  Status error_;
};

}  // namespace

Status replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result) {
  *result = ReplayResult();
  return Replay(algorithm, rank, size, root, result).run();
}

}  // namespace roda::execute
