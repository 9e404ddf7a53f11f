#include "core/plan/explain.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/user.h"
#include "algorithms/select/table.h"
#include "core/topology/json.h"
#include "plugins/base/format.h"

namespace roda::engine {
namespace {

// One candidate, as both forms tell it.
struct Row {
  select::Verdict verdict;
  bool is_chosen = false;
  Plan plan;  // of a usable one
  std::optional<Prediction> prediction;
};

std::vector<Row> rows_of(const Planner& planner, const PlanQuery& q, const Links& links, bool predicts) {
  std::vector<Row> rows;
  bool has_chosen = false;
  for (const select::Verdict& verdict : planner.candidates(q)) {
    Row& row = rows.emplace_back();
    row.verdict = verdict;
    if (!verdict.usable) continue;
    row.is_chosen = !has_chosen;
    has_chosen = true;
    row.plan = planner.plan_of(q, verdict.option);
    const bool is_known = q.memory_kind == RODA_MEMORY_HOST;  // the model has no links to devices
    if (predicts && q.size > 1 && is_known) row.prediction = predict(row.plan, q, links);
  }
  return rows;
}

const Row* chosen(const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, [](const Row& row) { return row.is_chosen; });
  return found == rows.end() ? nullptr : &*found;
}

const char* memory_name(const PlanQuery& q) { return q.memory_kind == RODA_MEMORY_HOST ? "host" : "cuda"; }

std::string time_text(double seconds) {
  if (seconds < 1e-3) return roda::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? roda::format("{:.3g} ms", seconds * 1e3) : roda::format("{:.3g} s", seconds);
}

// ", 1.2 ms predicted, 40 % more than what runs"
std::string prediction_text(const Row& row, const Row* best) {
  if (!row.prediction) return "";
  std::string text = ", " + time_text(row.prediction->seconds) + " predicted";
  if (row.is_chosen || best == nullptr || !best->prediction) return text;
  const double ratio = row.prediction->seconds / best->prediction->seconds - 1;
  return text + roda::format(", {:.0f} % {} than what runs", std::abs(ratio) * 100, ratio < 0 ? "less" : "more");
}

std::string fate(const Row& row) {
  if (!row.verdict.usable) return "not usable: " + row.verdict.reason;
  return (row.is_chosen ? "runs: " : "in reserve: ") + row.verdict.reason;
}

nlohmann::json json_of(const Row& row) {
  nlohmann::json j{{"transport", row.verdict.option.transport},
                   {"algorithm", row.verdict.option.algorithm},
                   {"usable", row.verdict.usable},
                   {"chosen", row.is_chosen},
                   {"reason", row.verdict.reason}};
  if (row.prediction) {
    j["predicted"] = {{"seconds", row.prediction->seconds},
                      {"bytes_inside_hosts", row.prediction->inside_bytes},
                      {"bytes_between_hosts", row.prediction->between_bytes}};
  }
  return j;
}

nlohmann::json json_of(const PlanStage& stage, const std::string& place) {
  return {{"staged", stage.staged},
          {"where", place.empty() ? "all" : place},
          {"collective", roda_collective_name(stage.collective)},
          {"transport", stage.transport->name},
          {"algorithm", stage.algorithm}};
}

// The steps of one rank, line by line: of this one, or where it is none of the ranks, of the first.
std::vector<std::string> steps_of(const Plan& plan, const Shape& shape) {
  const schedule::Schedule schedule = schedule_of(plan, shape, std::max(shape.self(), 0), 0);
  std::istringstream text(to_text(schedule));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

nlohmann::json choice_of(const std::vector<Row>& rows, const PlanQuery& q) {
  nlohmann::json j{{"collective", roda_collective_name(q.collective)},
                   {"memory", memory_name(q)},
                   {"bytes", q.bytes},
                   {"ranks", q.size},
                   {"hosts", q.hosts},
                   {"same_host", q.hosts <= 1}};
  if (const Row* best = chosen(rows); best != nullptr) {
    j["staged"] = best->plan.staged;
    for (std::size_t number = 0; number < best->plan.stages.size(); ++number) {
      j["stages"].push_back(json_of(best->plan.stages[number], best->plan.places[number]));
    }
    j["runs"] = {{"transport", best->verdict.option.transport}, {"algorithm", best->verdict.option.algorithm}};
  }
  return j;
}

std::string as_json(const std::vector<Row>& rows, const PlanQuery& q, const Links& links,
                    const std::vector<std::string>& assumptions) {
  nlohmann::json j = choice_of(rows, q);
  if (const Row* best = chosen(rows); best != nullptr) {
    if (best->plan.is_composed()) j["schedule"] = steps_of(best->plan, *q.shape);
    if (best->prediction) j["links"] = links.source;
  }
  j["candidates"] = nlohmann::json::array();
  for (const Row& row : rows) j["candidates"].push_back(json_of(row));
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (static_cast<int>(algorithm->collective()) != q.collective) continue;
    j["own"].push_back({{"algorithm", algorithm->name()},
                        {"source", algorithm->source()},
                        {"reason", algorithm->wrong_with(q.size).value_or("")}});
  }
  if (!assumptions.empty()) j["assumed_usable"] = assumptions;
  return j.dump(2);
}

// The algorithms that the user brought, whether a rule names them or not.
std::string own_algorithms(const PlanQuery& q) {
  std::string text;
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (static_cast<int>(algorithm->collective()) != q.collective) continue;
    const auto wrong = algorithm->wrong_with(q.size);
    text += roda::format("  of your own: {} ({}): {}\n", algorithm->name(), algorithm->source(),
                         wrong ? *wrong : roda::format("proved for {} ranks", q.size));
  }
  return text;
}

std::string in_words(const std::vector<Row>& rows, const PlanQuery& q, const Links& links,
                     const std::vector<std::string>& assumptions) {
  std::string text =
      roda::format("{} of {} bytes of {}{} over {} rank{}{}:\n", roda_collective_name(q.collective), q.bytes,
                   roda_dtype_name(q.dtype), q.memory_kind == RODA_MEMORY_HOST ? "" : " on GPUs", q.size,
                   q.size == 1 ? "" : "s", q.hosts <= 1 ? " of one host" : roda::format(" on {} hosts", q.hosts));
  if (q.size == 1) text += "  one rank: nothing travels, the input is copied to the output\n";
  const Row* best = chosen(rows);
  for (const Row& row : rows) {
    const select::Option& option = row.verdict.option;
    text += roda::format("  {} {}/{}  {}{}\n", row.is_chosen ? ">" : " ", option.transport, option.algorithm, fate(row),
                         prediction_text(row, best));
    if (row.plan.stages.size() > 1) text += "      " + row.plan.describe() + "\n";
    if (!row.is_chosen || !row.plan.is_composed()) continue;
    for (const std::string& line : steps_of(row.plan, *q.shape)) text += "      " + line + "\n";
  }
  if (best == nullptr) text += "  nothing can run this\n";
  if (best != nullptr && best->prediction) {
    text += roda::format(
        "  predicted by the model of roda-sim over links that are {}; what runs moves {:.4g} bytes "
        "inside hosts and {:.4g} between them\n",
        links.source, best->prediction->inside_bytes, best->prediction->between_bytes);
  }
  for (const std::string& reason : assumptions) {
    text += "  taken to be usable there, though not on this machine: " + reason + "\n";
  }
  return text + own_algorithms(q);
}

std::string size_text(std::size_t bytes) {
  return bytes % 1024 != 0 ? roda::format("{} B", bytes) : topology::size_text(static_cast<std::int64_t>(bytes / 1024));
}

}  // namespace

std::string by_size(Planner* planner, PlanQuery q) {
  std::string text, before;
  std::vector<std::size_t> starts{0};
  const std::vector<std::size_t>& edges = planner->edges_of(q);
  starts.insert(starts.end(), edges.begin(), edges.end());
  for (const std::size_t start : starts) {
    q.bytes = start;
    const Plan* plan = nullptr;
    const Status status = planner->plan(q, &plan);
    const std::string what = status.ok() ? plan->text : "nothing";
    if (what == before) continue;
    if (start > 0) text += " below " + size_text(start) + "; ";
    text += what;
    before = what;
  }
  return text + (text == before ? "" : " above");
}

std::string explain(const Planner& planner, const PlanQuery& q, const Links& links, Form form) {
  const std::vector<Row> rows = rows_of(planner, q, links, form != Form::kChoice);
  if (form == Form::kChoice) return choice_of(rows, q).dump();
  return form == Form::kJson ? as_json(rows, q, links, planner.assumptions())
                             : in_words(rows, q, links, planner.assumptions());
}

}  // namespace roda::engine
