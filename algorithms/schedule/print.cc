#include "algorithms/schedule/print.h"

#include <algorithm>
#include <array>

namespace roda::schedule {
namespace {

std::string peer_text(int peer) { return peer == kAllPeers ? "all" : std::to_string(peer); }

std::string remote(int peer, const Range& range) { return to_text(range) + " of " + peer_text(peer); }

}  // namespace

const char* step_name(StepKind kind) {
  static constexpr std::array<const char*, 13> kNames = {"send", "recv",       "recv_reduce", "copy",   "reduce",
                                                         "get",  "get_reduce", "put",         "signal", "wait",
                                                         "dots", "weigh",      "call"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string to_text(const Range& range) {
  static constexpr std::array<const char*, 4> kSpaces = {"input", "output", "scratch", "products"};
  if (range.count == 0) return "nothing";
  const auto space = static_cast<std::size_t>(range.space);
  std::string text = space < kSpaces.size() ? kSpaces[space] : "?";
  text += "[" + std::to_string(range.first);
  if (range.count != 1) text += ".." + std::to_string(static_cast<long>(range.first) + range.count) + ")";
  return range.count != 1 ? text : text + "]";
}

std::string to_text(const Step& step) {
  const std::string name = step_name(step.kind);
  const std::string dst = to_text(step.dst);
  const std::string src = to_text(step.src);
  switch (step.kind) {
    case StepKind::kSend:
      return name + " " + src + " to " + peer_text(step.peer);
    case StepKind::kRecv:
      return name + " " + dst + " from " + peer_text(step.peer);
    case StepKind::kRecvReduce:
      return name + " " + dst + " = " + src + " + message from " + peer_text(step.peer);
    case StepKind::kCopy:
      return name + " " + dst + " = " + src;
    case StepKind::kReduce:
      return name + " " + dst + " += " + src;
    case StepKind::kGet:
      return name + " " + dst + " = " + remote(step.peer, step.src);
    case StepKind::kGetReduce:
      return name + " " + dst + " += " + remote(step.peer, step.src);
    case StepKind::kPut:
      return name + " " + remote(step.peer, step.dst) + " = " + src;
    case StepKind::kSignal:
      return name + " " + std::to_string(step.signal) + " to " + peer_text(step.peer);
    case StepKind::kWait:
      return name + " for signal " + std::to_string(step.signal) + " from " + peer_text(step.peer);
    case StepKind::kDots:
      return name + " " + dst + " = " + src + " . " + to_text(step.other);
    case StepKind::kWeigh:
      return name + " " + dst + " = " + src + ", " + to_text(step.other) + " by products[0]";
    case StepKind::kCall:
      return name + " " + dst + " = " + src;
  }
  return "?";
}

std::string to_text(const Call& call) {
  std::string text = std::string(collective_name(call.collective)) + "/" + call.algorithm + " among ranks ";
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(kMost, call.members->size()); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string((*call.members)[i]);
  }
  return text + (call.members->size() > kMost ? ", ..." : "");
}

std::string to_text(const Schedule& schedule) {
  std::size_t call = 0;
  std::string text = std::string(collective_name(schedule.collective)) + "/" + schedule.algorithm + " rank " +
                     std::to_string(schedule.rank) + " of " + std::to_string(schedule.size) + ", " +
                     std::to_string(schedule.chunks) + " chunks\n";
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (std::size_t index = 0; index < schedule.lanes[lane].steps.size(); ++index) {
      text += "  lane " + std::to_string(lane) + " step " + std::to_string(index) + ": " +
              to_text(schedule.lanes[lane].steps[index]);
      const bool is_call = schedule.lanes[lane].steps[index].kind == StepKind::kCall;
      text += (is_call ? " by " + to_text(schedule.calls[call++]) : "") + "\n";
    }
  }
  return text;
}

}  // namespace roda::schedule
