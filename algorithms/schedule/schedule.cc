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
    case StepKind::kDots:
    case StepKind::kWeigh:
    case StepKind::kCall:
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

namespace {

// One block for each rank, or each part of the data.
std::vector<Block> numbered(std::int32_t count, const std::function<Block(std::int32_t)>& block) {
  std::vector<Block> blocks;
  for (std::int32_t i = 0; i < count; ++i) blocks.push_back(block(i));
  return blocks;
}

Block part(std::int32_t number) { return {-1, number}; }

}  // namespace

std::vector<Block> input_blocks(const Schedule& s) {
  if (is_cut(s.collective)) return numbered(s.in_place ? 0 : s.chunks, part);
  switch (s.collective) {
    case Collective::kAllgather:
      return numbered(s.in_place ? 0 : 1, [&s](std::int32_t) { return Block{s.rank, -1}; });
    case Collective::kReduceScatter:
      return numbered(s.chunks, part);
    case Collective::kAlltoall:
      return numbered(s.chunks, [&s](std::int32_t to) { return Block{s.rank, to}; });
    default:
      return {};
  }
}

std::vector<Block> output_blocks(const Schedule& s) {
  if (is_cut(s.collective)) return numbered(s.chunks, part);
  switch (s.collective) {
    case Collective::kAllgather:
      return numbered(s.chunks, [](std::int32_t from) { return Block{from, -1}; });
    case Collective::kReduceScatter:
      return {part(s.rank)};
    case Collective::kAlltoall:
      return numbered(s.chunks, [&s](std::int32_t from) { return Block{from, s.rank}; });
    default:
      return {};
  }
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
    case Collective::kAdasum:
      return "adasum";
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
