#include "algorithms/text/schedule_file.h"

#include <array>
#include <charconv>
#include <utility>

#include "algorithms/schedule/verifier.h"
#include "algorithms/text/field.h"

namespace roda::text {

using nlohmann::json;
using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

constexpr std::int32_t kLast = INT32_MAX / 2;

constexpr std::array<std::pair<const char*, Space>, 3> kSpaces = {
    {{"input", Space::kInput}, {"output", Space::kOutput}, {"scratch", Space::kScratch}}};

// A whole number that the text begins with, which is taken off.
bool take_number(std::string_view* text, std::int32_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0 || *number > kLast) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

bool take(std::string_view* text, std::string_view what) {
  if (!text->starts_with(what)) return false;
  text->remove_prefix(what.size());
  return true;
}

// "output[2]", "scratch[0..4)", "nothing"
bool parse_range(std::string_view text, Range* range) {
  *range = Range{};
  if (text == "nothing") return true;
  for (const auto& [name, space] : kSpaces) {
    if (!take(&text, name)) continue;
    range->space = space;
    range->count = 1;
    if (!take(&text, "[") || !take_number(&text, &range->first)) return false;
    if (text == "]") return true;
    std::int32_t end = 0;
    if (!take(&text, "..") || !take_number(&text, &end) || text != ")") return false;
    range->count = end - range->first;
    return range->count > 0;
  }
  return false;
}

Range read_range(const Field& fields, const char* name) {
  Range range;
  if (fields.has(name) && !parse_range(fields.get<std::string>(name), &range)) {
    fields[name].refuse("a range like output[2] or scratch[0..4)");
  }
  return range;
}

StepKind read_kind(const Field& fields) {
  const auto name = fields.get<std::string>("do");
  for (int kind = 0; kind <= static_cast<int>(StepKind::kWait); ++kind) {
    if (name == schedule::step_name(static_cast<StepKind>(kind))) return static_cast<StepKind>(kind);
  }
  fields["do"].refuse("the name of a step");
}

Step read_step(const Field& fields) {
  Step step;
  step.kind = read_kind(fields);
  if (!schedule::is_local(step.kind)) {
    const bool is_all = fields["peer"].value() == "all";
    step.peer = is_all ? schedule::kAllPeers : fields.get("peer", 0, kMostRanks);
  }
  step.src = read_range(fields, "src");
  step.dst = read_range(fields, "dst");
  step.signal = fields.get("signal", 0, schedule::kMaxSignals - 1, 0);
  fields.end();
  return step;
}

void read_rank(const Field& fields, Schedule* schedule) {
  schedule->scratch_chunks = fields.get("scratch", 0, kMostChunks, 0);
  schedule->scratch_is_own = fields.get("scratch_is_own", 0, 1, 0) == 1;
  const Field lanes = fields["lanes"];
  lanes.for_each([&](const Field& steps) {
    if (schedule->lanes.size() == kMostLanes) lanes.refuse("at most 16 lanes");
    std::vector<Step>& out = schedule->lanes.emplace_back().steps;
    steps.for_each([&](const Field& step) { out.push_back(read_step(step)); });
  });
  fields.end();
}

Collective read_collective(const Field& fields) {
  const auto name = fields.get<std::string>("collective");
  for (const Collective collective : schedule::collectives()) {
    const bool has_steps = collective != Collective::kAdasum;  // its own kinds of step are in no file
    if (has_steps && name == schedule::collective_name(collective)) return collective;
  }
  fields["collective"].refuse("the name of a collective");
}

std::vector<Schedule> parse_schedules(const std::string& text) {
  const json file = parse_json(text);
  const Field fields(file);
  Schedule common;
  common.algorithm = fields.get<std::string>("name");
  common.collective = read_collective(fields);
  common.size = fields.get("size", 1, kMostRanks);
  common.chunks = fields.get("chunks", 1, kMostChunks, 1);
  common.root = fields.get("root", 0, common.size - 1, 0);
  common.in_place = fields.get("in_place", true);
  common.reads_linger = fields.get("reads_linger", false);
  const Field list = fields["ranks"];
  fields.end();
  if (list.value().size() != static_cast<std::size_t>(common.size)) {
    list.refuse("as many entries as the size says, " + std::to_string(common.size));
  }
  std::vector<Schedule> ranks;
  std::int64_t chunks = 0;
  list.for_each([&](const Field& rank) {
    common.rank = static_cast<std::int32_t>(ranks.size());
    ranks.push_back(common);
    read_rank(rank, &ranks.back());
    chunks += 2 * common.chunks + ranks.back().scratch_chunks;
    if (chunks > kMostChunksInAll) list.refuse("of at most a million chunks in all");
  });
  return ranks;
}

json to_json(const Step& step) {
  json value = {{"do", schedule::step_name(step.kind)}};
  if (!schedule::is_local(step.kind)) value["peer"] = step.peer == schedule::kAllPeers ? json("all") : json(step.peer);
  if (step.src.count > 0) value["src"] = schedule::to_text(step.src);
  if (step.dst.count > 0) value["dst"] = schedule::to_text(step.dst);
  if (step.signal != 0) value["signal"] = step.signal;
  return value;
}

// One step to a line.
std::string lines_of(const Schedule& schedule) {
  std::string text = "    {\"scratch\": " + std::to_string(schedule.scratch_chunks);
  if (schedule.scratch_is_own) text += ", \"scratch_is_own\": 1";
  text += ", \"lanes\": [";
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    text += lane == 0 ? "[" : ", [";
    for (std::size_t i = 0; i < schedule.lanes[lane].steps.size(); ++i) {
      text += std::string(i == 0 ? "" : ",") + "\n      " + to_json(schedule.lanes[lane].steps[i]).dump();
    }
    text += "]";
  }
  return text + "]}";
}

}  // namespace

std::optional<std::string> read_schedules(const std::string& text, std::vector<Schedule>* ranks) {
  ranks->clear();
  try {
    *ranks = parse_schedules(text);
  } catch (const Wrong& wrong) {
    return wrong.what();
  }
  if (const auto violation = schedule::verify(*ranks)) return violation->to_text();
  return std::nullopt;
}

std::string write_schedules(const std::vector<Schedule>& ranks) {
  const Schedule& first = ranks.front();
  std::string text = "{\n  \"name\": " + json(first.algorithm).dump() + ",\n  \"collective\": \"" +
                     schedule::collective_name(first.collective) + "\",\n  \"size\": " + std::to_string(first.size) +
                     ",\n  \"chunks\": " + std::to_string(first.chunks);
  if (first.root != 0) text += ",\n  \"root\": " + std::to_string(first.root);
  if (!first.in_place) text += ",\n  \"in_place\": false";
  if (first.reads_linger) text += ",\n  \"reads_linger\": true";
  text += ",\n  \"ranks\": [";
  for (const Schedule& schedule : ranks) text += (schedule.rank == 0 ? "\n" : ",\n") + lines_of(schedule);
  return text + "\n  ]\n}\n";
}

}  // namespace roda::text
