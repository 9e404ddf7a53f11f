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

// Whose a block is shows only where it is not every rank's: what is combined is.
std::vector<Block> input_blocks(const Schedule& s) {
  const bool is_combined = is(s.collective, RODA_COMBINES);
  switch (entry_of(s.collective).input) {
    case RODA_WHOLE:
      return numbered(reads_input(s) ? s.chunks : 0, part);
    case RODA_OWN_PART:
      return numbered(reads_input(s) ? 1 : 0, [&s](std::int32_t) { return Block{s.rank, -1}; });
    case RODA_ALL_PARTS:
      return numbered(s.chunks, [&](std::int32_t to) { return Block{is_combined ? -1 : s.rank, to}; });
    default:
      return {};
  }
}

std::vector<Block> output_blocks(const Schedule& s) {
  const bool is_for_all = entry_of(s.collective).input == RODA_OWN_PART;
  switch (entry_of(s.collective).output) {
    case RODA_WHOLE:
      return numbered(is_for_root(s.collective) && s.rank != s.root ? 0 : s.chunks, part);
    case RODA_OWN_PART:
      return {part(s.rank)};
    case RODA_ALL_PARTS:
      return numbered(s.chunks, [&](std::int32_t from) { return Block{from, is_for_all ? -1 : s.rank}; });
    default:
      return {};
  }
}

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = [] {
    std::vector<Collective> found;
    for (int number = 0; number < RODA_COLLECTIVE_COUNT; ++number) {
      if (is(static_cast<Collective>(number), RODA_RUNS)) found.push_back(static_cast<Collective>(number));
    }
    return found;
  }();
  return all;
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

}  // namespace roda::schedule
