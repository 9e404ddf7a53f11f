#include "core/execute/schedule/compiler.h"

#include <map>
#include <string>
#include <tuple>

namespace roda::execute {

using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

// One rank on its way through its schedule.
struct Player {
  Schedule schedule;
  std::vector<std::size_t> next;  // per lane
};

class Replay {
 public:
  Replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result)
      : rank_(rank), size_(size), result_(*result) {
    for (int r = 0; r < size; ++r) {
      Player& player = players_.emplace_back(Player{algorithm.make(r, size, root), {}});
      player.next.resize(player.schedule.lanes.size());
    }
    signals_.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * schedule::kMaxSignals);
    prepare_result();
  }

  Status run() {
    for (bool moved = true; moved;) {
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
    for (const auto& lane : mine.lanes) result_.times.emplace_back(lane.steps.size());
    const Space spaces[2] = {Space::kInput, Space::kOutput};
    for (int s = 0; s < 2; ++s) {
      const std::size_t chunks = index(chunks_of(mine.collective, spaces[s], mine.chunks, size_));
      result_.first_peer_access[s].resize(chunks);
      result_.last_peer_access[s].resize(chunks);
      result_.readers[s].assign(chunks, kNobody);
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
    while (player.next[lane] < steps.size() && play(r, lane, steps[player.next[lane]])) {
      if (r == rank_) result_.times[lane][player.next[lane]] = ++time_;
      ++player.next[lane];
    }
    return player.next[lane] != before;
  }

  // False when the step can't run yet.
  bool play(int r, std::size_t lane, const Step& step) {
    switch (step.kind) {
      case StepKind::kSend:
        ++messages_[{r, step.peer, lane}];
        return true;
      case StepKind::kRecv:
      case StepKind::kRecvReduce: {
        int& sent = messages_[{step.peer, r, lane}];
        return sent > 0 && sent-- > 0;
      }
      case StepKind::kCopy:
      case StepKind::kWeigh:
      case StepKind::kReduce:
      case StepKind::kDots:
        return true;
      case StepKind::kGet:
      case StepKind::kGetReduce:
        return touch(r, step.peer, step.src, true);
      case StepKind::kPut:
        return touch(r, step.peer, step.dst, false);
      case StepKind::kSignal:
        for_peers(r, step.peer, [&](int peer) { ++signals(r, peer, step.signal); });
        return true;
      case StepKind::kWait:
        return wait(r, step);
      case StepKind::kCall:  // no algorithm makes one
        break;
    }
    return false;
  }

  void for_peers(int r, int peer, auto f) {
    if (peer != schedule::kAllPeers) return f(peer);
    for (int p = 0; p < size_; ++p) {
      if (p != r) f(p);
    }
  }

  // Takes the signals: each is one lane's alone.
  bool wait(int r, const Step& step) {
    bool all = true;
    for_peers(r, step.peer, [&](int peer) { all &= signals(peer, r, step.signal) > 0; });
    if (all) for_peers(r, step.peer, [&](int peer) { --signals(peer, r, step.signal); });
    return all;
  }

  // `range` of the owner's window is touched by rank r.
  bool touch(int r, int owner, const Range& range, bool is_read) {
    if (range.space == Space::kScratch) {
      error_ = Status::unsupported(name() + ": peers reach into Scratch");
      return false;
    }
    ++time_;
    if (owner == rank_) {
      const bool output = range.space == Space::kOutput;
      for (std::size_t c = index(range.first); c < index(range.first + range.count); ++c) {
        std::uint64_t& first = result_.first_peer_access[output][c];
        if (first == 0) first = time_;
        result_.last_peer_access[output][c] = time_;
        std::int32_t& reader = result_.readers[output][c];
        if (is_read) reader = reader == kNobody || reader == r ? r : schedule::kAllPeers;
      }
      if (is_read) result_.read_by[index(r)] = true;
    }
    if (r == rank_ && is_read) result_.reads_from[index(owner)] = true;
    return true;
  }

  int rank_;
  int size_;
  ReplayResult& result_;
  std::vector<Player> players_;
  std::vector<std::uint32_t> signals_;                         // not waited for yet
  std::map<std::tuple<int, int, std::size_t>, int> messages_;  // on their way: from, to, lane
  std::uint64_t time_ = 0;
  Status error_;
};

}  // namespace

Status replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result) {
  *result = ReplayResult();
  return Replay(algorithm, rank, size, root, result).run();
}

}  // namespace roda::execute
