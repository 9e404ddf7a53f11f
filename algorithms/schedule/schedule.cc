#include "algorithms/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/format.h"
#include "algorithms/schedule/user.h"

namespace roda::schedule {
namespace {

struct Kind {
  const char* name;
  std::uint32_t needs;
  const char* operands;  // with letters for the destination, source, other, peer and signal
};

// By StepKind.
constexpr Kind kKinds[] = {{"send", kNeedsMessages, "S to P"},
                           {"recv", kNeedsMessages, "D from P"},
                           {"recv_reduce", kNeedsMessages, "D = S + message from P"},
                           {"copy", 0, "D = S"},
                           {"reduce", 0, "D += S"},
                           {"get", kNeedsGet, "D = S of P"},
                           {"get_reduce", kNeedsGet, "D += S of P"},
                           {"put", kNeedsPut, "D of P = S"},
                           {"signal", kNeedsSignals, "N to P"},
                           {"wait", kNeedsSignals, "for signal N from P"},
                           {"dots", 0, "D = S . O"},
                           {"weigh", 0, "D = S, O by products[0]"},
                           {"round", 0, "D"}};

const Kind& entry_of(StepKind kind) {
  static constexpr Kind kUnknown = {"?", 0, ""};
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kKinds) ? kKinds[number] : kUnknown;
}

// One block for each rank, or each part of the data.
std::vector<Block> numbered(std::int32_t count, const std::function<Block(std::int32_t)>& block) {
  std::vector<Block> blocks;
  for (std::int32_t i = 0; i < count; ++i) blocks.push_back(block(i));
  return blocks;
}

Block part(std::int32_t number) { return {-1, number}; }

}  // namespace

const char* step_name(StepKind kind) { return entry_of(kind).name; }

std::uint32_t needs_of(StepKind kind) { return entry_of(kind).needs; }

std::uint32_t needs_of(const Schedule& schedule) {
  std::uint32_t needs = 0;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane.steps) needs |= needs_of(step.kind);
  }
  return needs;
}

std::uint32_t needs_of(const std::vector<Schedule>& ranks) {
  std::uint32_t needs = 0;
  for (const Schedule& schedule : ranks) needs |= needs_of(schedule);
  return needs;
}

std::int32_t chunk_count(const Outline& s, Space space) {
  const bool is_input = space == Space::kInput;
  const int extent = is_input ? entry_of(s.collective).input : entry_of(s.collective).output;
  const bool is_there = is_input ? reads_input(s) : !is_for_root(s.collective) || s.rank == s.root;
  if (extent == RODA_NOTHING || !is_there) return 0;
  return extent == RODA_OWN_PART ? 1 : s.chunks;
}

// Whose a block is shows only where it is not every rank's: what is combined is.
std::vector<Block> input_blocks(const Outline& s) {
  const int extent = entry_of(s.collective).input;
  return numbered(chunk_count(s, Space::kInput), [&](std::int32_t to) {
    if (extent == RODA_ALL_PARTS) return Block{is(s.collective, RODA_COMBINES) ? -1 : s.rank, to};
    return extent == RODA_OWN_PART ? Block{s.rank, -1} : part(to);
  });
}

std::vector<Block> output_blocks(const Outline& s) {
  const roda_collective_entry& data = entry_of(s.collective);
  return numbered(chunk_count(s, Space::kOutput), [&](std::int32_t from) {
    if (data.output == RODA_ALL_PARTS) return Block{from, data.input == RODA_OWN_PART ? -1 : s.rank};
    return part(data.output == RODA_OWN_PART ? s.rank : from);
  });
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

std::vector<Algorithm> list_of(Collective collective, std::initializer_list<Row> rows) {
  const bool has_root = is(collective, RODA_ROOTED) || collective == Collective::kAdasum;
  std::vector<Algorithm> list;
  for (const Row& row : rows) {
    const auto make = [=](int rank, int size, int root) {
      Schedule schedule = begin(row.name, collective, rank, size, 1);
      schedule.root = has_root ? root : 0;
      row.write(schedule, rank, size);
      return schedule;
    };
    list.push_back({row.name, row.summary, collective, row.needs, row.accepts, make, row.in_rank_order});
  }
  return list;
}

const std::vector<const Algorithm*>& algorithms() {
  static const std::vector<Algorithm> owned = [] {
    std::vector<Algorithm> all;
    for (const auto list : kLists) std::ranges::move(list(), std::back_inserter(all));
    std::ranges::sort(all, [](const Algorithm& a, const Algorithm& b) {
      return a.collective != b.collective ? a.collective < b.collective : std::strcmp(a.name, b.name) < 0;
    });
    return all;
  }();
  static const std::vector<const Algorithm*> all = [] {
    std::vector<const Algorithm*> pointers;
    for (const Algorithm& algorithm : owned) pointers.push_back(&algorithm);
    return pointers;
  }();
  return all;
}

const Algorithm* find_algorithm(Collective collective, const std::string& name) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == collective && name == algorithm->name) return algorithm;
  }
  if (const Algorithm* algorithm = find_formatted(collective, name)) return algorithm;
  for (const auto& algorithm : user_algorithms()) {
    if (algorithm->collective() == collective && name == algorithm->name()) return &algorithm->algorithm();
  }
  return nullptr;
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
  std::string text = step_name(step.kind) + std::string(" ");
  for (const char* letter = entry_of(step.kind).operands; *letter != '\0'; ++letter) {
    switch (*letter) {
      case 'D':
        text += to_text(step.dst);
        break;
      case 'S':
        text += to_text(step.src);
        break;
      case 'O':
        text += to_text(step.other);
        break;
      case 'P':
        text += step.peer == kAllPeers ? "all" : std::to_string(step.peer);
        break;
      case 'N':
        text += std::to_string(step.signal);
        break;
      default:
        text += *letter;
    }
  }
  return text + (step.format == RODA_WIRE_NONE ? "" : std::string(" in ") + roda_wire_formats[step.format].name);
}

}  // namespace roda::schedule
