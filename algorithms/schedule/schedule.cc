#include "algorithms/schedule/schedule.h"

#include <algorithm>
#include <cstring>

#include "algorithms/schedule/registry.h"
#include "algorithms/schedule/user.h"

namespace roda::schedule {
namespace {

std::vector<const Algorithm*> sorted_algorithms() {
  std::vector<const Algorithm*> all = registered_algorithms();
  std::sort(all.begin(), all.end(), [](const Algorithm* a, const Algorithm* b) {
    return a->collective != b->collective ? a->collective < b->collective : std::strcmp(a->name, b->name) < 0;
  });
  return all;
}

}  // namespace

std::uint32_t needs_of(StepKind kind) {
  switch (kind) {
    case StepKind::kSend:
    case StepKind::kRecv:
    case StepKind::kRecvReduce:
      return kNeedsMessages;
    case StepKind::kGet:
    case StepKind::kGetReduce:
      return kNeedsGet;
    case StepKind::kPut:
      return kNeedsPut;
    case StepKind::kSignal:
    case StepKind::kWait:
      return kNeedsSignals;
    case StepKind::kCopy:
    case StepKind::kReduce:
      break;
  }
  return 0;
}

std::uint32_t needs_of(const Schedule& schedule) {
  std::uint32_t needs = 0;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane.steps) needs |= needs_of(step.kind);
  }
  return needs;
}

const std::vector<const Algorithm*>& algorithms() {
  static const std::vector<const Algorithm*> all = sorted_algorithms();
  return all;
}

const Algorithm* find_algorithm(Collective collective, const std::string& name) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == collective && name == algorithm->name) return algorithm;
  }
  for (const auto& algorithm : user_algorithms()) {
    if (algorithm->collective() == collective && name == algorithm->name()) return &algorithm->algorithm();
  }
  return nullptr;
}

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::kAllreduce:
      return "allreduce";
    case Collective::kAllgather:
      return "allgather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAlltoall:
      return "alltoall";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kReduceScatter:
      return "reducescatter";
  }
  return "?";
}

}  // namespace roda::schedule
