#include "core/engine/choice_table.h"

#include <nlohmann/json.hpp>

#include "core/engine/words.h"
#include "plugins/base/format.h"

namespace roda::engine {
namespace {

using negotiate::Change;
using negotiate::LaunchClass;
using negotiate::Refinement;

std::string in_words(std::int32_t set, const LaunchClass& of) {
  return roda::format("{} of {} to {} bytes of {} ({}), process set {}", lower_name(of.collective), of.from(), of.to(),
                      roda_dtype_name(of.dtype), roda_reduce_op_name(of.op), set);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return roda::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? roda::format("{:.3g} ms", seconds * 1e3) : roda::format("{:.3g} s", seconds);
}

const char* word(Change change) {
  switch (change) {
    case Change::kTry:
      return "try";
    case Change::kKeep:
      return "keep";
    case Change::kGoBack:
      break;
  }
  return "go back";
}

std::string what_it_does(const Refinement& r) {
  if (r.change == Change::kTry) {
    return roda::format("tries {} in {} launches beside {}, which takes {}", r.option, r.launches, r.present,
                        time_text(r.present_seconds));
  }
  const bool is_seen = r.option_seconds > 0 && r.present_seconds > 0;
  const std::string figures =
      is_seen ? roda::format("{} against {}", time_text(r.option_seconds), time_text(r.present_seconds))
              : "too few launches ran alone";
  if (r.change == Change::kKeep) return roda::format("keeps {}, {} of {}", r.option, figures, r.present);
  return roda::format("goes back to {} from {}: {}", r.present, r.option, figures);
}

nlohmann::json json_of(std::uint64_t number, const Refinement& r) {
  return {{"number", number},
          {"change", word(r.change)},
          {"option", r.option},
          {"present", r.present},
          {"launches", r.launches},
          {"option_seconds", r.option_seconds},
          {"present_seconds", r.present_seconds}};
}

}  // namespace

std::string sentence(std::uint64_t number, const Refinement& r) {
  return roda::format("change {}: {}: {}", number, in_words(r.set, r.of), what_it_does(r));
}

void ChoiceTable::ran(std::int32_t set, const LaunchClass& of, const std::string& plan) {
  const std::scoped_lock lock(mutex_);
  ++rows_[{set, of}].ran[plan];
}

void ChoiceTable::changed(std::uint64_t number, const Refinement& r) {
  const std::scoped_lock lock(mutex_);
  rows_[{r.set, r.of}].changes.emplace_back(number, r);
}

void ChoiceTable::forget_set(std::int32_t set) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(rows_, [set](const auto& row) { return row.first.first == set; });
}

std::optional<ChoiceTable::Kept> ChoiceTable::kept(std::int32_t set, const LaunchClass& of) const {
  const std::scoped_lock lock(mutex_);
  const auto row = rows_.find({set, of});
  if (row == rows_.end()) return std::nullopt;
  std::optional<Kept> latest;
  for (const auto& [number, change] : row->second.changes) {
    if (change.change == Change::kKeep)
      latest = {change.option, roda::format("change {} {}", number, what_it_does(change))};
  }
  return latest;
}

std::string ChoiceTable::describe(bool as_json) const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  nlohmann::json classes = nlohmann::json::array();
  for (const auto& [key, row] : rows_) {
    const auto& [set, of] = key;
    text += in_words(set, of) + ":\n";
    nlohmann::json& entry = classes.emplace_back(nlohmann::json{{"set", set},
                                                                {"collective", roda_collective_name(of.collective)},
                                                                {"dtype", roda_dtype_name(of.dtype)},
                                                                {"op", roda_reduce_op_name(of.op)},
                                                                {"from_bytes", of.from()},
                                                                {"to_bytes", of.to()},
                                                                {"launches", row.ran},
                                                                {"changes", nlohmann::json::array()}});
    for (const auto& [plan, launches] : row.ran) text += roda::format("  {}: {} launches\n", plan, launches);
    for (const auto& [number, change] : row.changes) {
      text += roda::format("  change {}: {}\n", number, what_it_does(change));
      entry["changes"].push_back(json_of(number, change));
    }
  }
  return as_json ? nlohmann::json{{"refine", true}, {"classes", classes}}.dump(2) : text;
}

}  // namespace roda::engine
