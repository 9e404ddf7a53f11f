#include "tools/info/explanation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "tools/common/names.h"
#include "tools/common/sizes.h"

namespace roda::tools {
namespace {

using nlohmann::json;

std::string text_of(const json& value) { return value.get<std::string>(); }

std::string collective_of(const json& name) {
  const auto collective = parse_collective(text_of(name));
  return collective ? collective_text(*collective) : text_of(name);
}

std::string name_of(const json& candidate) {
  return text_of(candidate["transport"]) + "/" + text_of(candidate["algorithm"]);
}

// By printf's format, which takes one number.
std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string to_the_left(std::string text, std::size_t width) {
  return text.append(width - std::min(width, text.size()), ' ');
}
std::string to_the_right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// HUGE_VAL: not predicted.
double seconds_of(const json& candidate) {
  return candidate.contains("predicted") ? candidate["predicted"]["seconds"].get<double>() : HUGE_VAL;
}

std::string time_text(double seconds) {
  if (seconds == HUGE_VAL) return "";
  if (seconds < 1e-3) return number("%.3g us", seconds * 1e6);
  return seconds < 1 ? number("%.3g ms", seconds * 1e3) : number("%.3g s", seconds);
}

// "+ 40 %": against what runs.
std::string difference_text(const json& candidate, double best) {
  if (candidate["chosen"] || seconds_of(candidate) == HUGE_VAL || best == HUGE_VAL) return "";
  const double ratio = seconds_of(candidate) / best - 1;
  return number(ratio < 0 ? "- %.0f %%" : "+ %.0f %%", std::abs(ratio) * 100);
}

// In three digits: a sum over ranks, which no unit fits exactly.
std::string volume_text(double bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return number("%.3g ", bytes) + kUnits[unit];
}

// "reducescatter on each host by nccl/native, then allreduce across hosts by ..."
std::string stages_text(const json& stages) {
  std::string text;
  for (const json& stage : stages) {
    text += (text.empty() ? "" : ", then ") + collective_of(stage["collective"]) + " " + text_of(stage["where"]) +
            " by " + name_of(stage) + (stage["staged"].get<bool>() ? " (staged through host memory)" : "");
  }
  return text;
}

std::string fate_of(const json& candidate) {
  if (!candidate["usable"]) return "not usable: " + text_of(candidate["reason"]);
  return (candidate["chosen"] ? "runs: " : "in reserve: ") + text_of(candidate["reason"]);
}

std::string headline(const json& told, const json* chosen) {
  const int ranks = told["ranks"], hosts = told["hosts"];
  std::string verdict = "nothing can run this";
  if (chosen != nullptr) verdict = name_of(*chosen) + " runs";
  if (chosen != nullptr && chosen->contains("predicted")) {
    verdict += ", " + time_text(seconds_of(*chosen)) + " predicted";
  }
  if (ranks == 1) verdict = "nothing travels, the input is copied to the output";
  const std::string where = hosts <= 1 ? " of one host" : " on " + std::to_string(hosts) + " hosts";
  return collective_of(told["collective"]) + " of " + format_size(told["bytes"].get<std::size_t>()) +
         (told["memory"] == "host" ? "" : " on GPUs") + " over " + std::to_string(ranks) + " rank" +
         (ranks == 1 ? "" : "s") + where + ": " + verdict + "\n";
}

std::string table(const json& told, const std::vector<const json*>& candidates, double best) {
  std::string text;
  std::size_t width = 0;
  for (const json* candidate : candidates) width = std::max(width, name_of(*candidate).size());
  for (const json* candidate : candidates) {
    const bool is_chosen = (*candidate)["chosen"];
    text += (is_chosen ? "  > " : "    ") + to_the_left(name_of(*candidate), width) + "  ";
    if (best != HUGE_VAL) {
      text += to_the_right(time_text(seconds_of(*candidate)), 8) + "  " +
              to_the_right(difference_text(*candidate, best), 8) + "  ";
    }
    text += fate_of(*candidate) + "\n";
    const json stages = is_chosen ? told.value("stages", json()) : candidate->value("stages", json());
    if (stages.size() > 1) text += "      " + stages_text(stages) + "\n";
    if (!is_chosen) continue;
    if (told.contains("formats")) text += "      " + text_of(told["formats"]["text"]) + "\n";
    for (const json& step : told.value("schedule", json::array())) text += "      " + text_of(step) + "\n";
  }
  return text;
}

// The algorithms that the user brought, whether a rule names them or not.
std::string own_algorithms(const json& told) {
  std::string text;
  for (const json& own : told.value("own", json::array())) {
    const std::string wrong = own["reason"];
    text += "  of your own: " + text_of(own["algorithm"]) + " (" + text_of(own["source"]) +
            "): " + (wrong.empty() ? "proved for " + std::to_string(told["ranks"].get<int>()) + " ranks" : wrong) +
            "\n";
  }
  return text;
}

}  // namespace

std::string in_words(const json& told) {
  std::vector<const json*> candidates;
  for (const json& candidate : told["candidates"]) candidates.push_back(&candidate);
  std::ranges::stable_sort(candidates, {}, [](const json* candidate) {
    return std::tuple(!(*candidate)["chosen"].get<bool>(), !(*candidate)["usable"].get<bool>(), seconds_of(*candidate));
  });
  const bool has_chosen = !candidates.empty() && (*candidates.front())["chosen"];
  const json* chosen = has_chosen ? candidates.front() : nullptr;
  const double best = has_chosen ? seconds_of(*chosen) : HUGE_VAL;
  std::string text = headline(told, chosen) + table(told, candidates, best);
  if (best != HUGE_VAL) {
    const json& predicted = (*chosen)["predicted"];
    text += "  times are predicted by the model of roda-sim over links that are " + text_of(told["links"]) +
            "; what runs moves " + volume_text(predicted["bytes_inside_hosts"]) + " inside hosts and " +
            volume_text(predicted["bytes_between_hosts"]) + " between them\n";
  }
  for (const json& reason : told.value("assumed_usable", json::array())) {
    text += "  taken to be usable there, though not on this machine: " + text_of(reason) + "\n";
  }
  text += own_algorithms(told);
  text.pop_back();
  return text;
}

}  // namespace roda::tools
