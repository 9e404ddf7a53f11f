#include "tools/info/overview.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::tools {
namespace {

constexpr std::size_t kMostLines = 4;    // of one part
constexpr std::size_t kMostWidth = 100;  // of one line

using Describe = char* (*)(std::int32_t as_json);

std::string take(Describe describe, bool as_json) {
  const std::unique_ptr<char, void (*)(char*)> text(describe(as_json ? 1 : 0), roda_free_text);
  return text != nullptr ? text.get() : as_json ? "null" : "";
}

// The lines beside their title; of many the first ones.
std::string part(std::string title, std::vector<std::string> lines, const std::string& option) {
  if (lines.size() > kMostLines) {
    const std::size_t more = lines.size() - (kMostLines - 1);
    lines.resize(kMostLines - 1);
    lines.push_back("and " + std::to_string(more) + " more (" + option + ")");
  }
  std::string text;
  for (std::string& line : lines) {
    title.resize(12, ' ');
    if (line.size() > kMostWidth) line = line.substr(0, kMostWidth - 3) + "...";
    text += title + line + "\n";
    title.clear();
  }
  return text;
}

std::string plugins() {
  std::string usable;
  std::vector<std::string> others;
  const auto described = nlohmann::json::parse(take(roda_describe_plugins, true));
  for (const auto& plugin : described.value("plugins", nlohmann::json::array())) {
    const std::string name = plugin.value("name", "");
    if (plugin.value("usable", false)) {
      usable += (usable.empty() ? "" : ", ") + name;
    } else {
      others.push_back(name + ": " + plugin.value("reason", ""));
    }
  }
  return part("usable", {usable.empty() ? "no transport" : usable}, "") + part("not usable", others, "--plugins");
}

// Without the trees: of every kind of machine a line.
std::string machines() {
  std::vector<std::string> lines;
  std::istringstream text(take(roda_describe_topology, false));
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && static_cast<unsigned char>(line[0]) < 0x80 && line[0] != ' ') lines.push_back(line);
  }
  return part("machine", lines, "--topology");
}

std::string settings() {
  std::vector<std::string> set;
  const auto knobs = nlohmann::json::parse(take(roda_describe_knobs, true));
  for (const auto& knob : knobs) {
    if (knob.value("source", "default") == "default") continue;
    set.push_back(knob.value("name", "") + "=" + knob.value("value", ""));
  }
  if (set.empty()) set.push_back("none of " + std::to_string(knobs.size()) + " is set");
  return part("settings", set, "--env");
}

}  // namespace

std::string overview() {
  return "Roda " + std::string(roda_version()) + "\n\n" + plugins() + machines() + settings() +
         "\nMore: --plugins, --topology, --env, --explain COLLECTIVE SIZE; --doctor says how to mend what is not "
         "usable\n";
}

}  // namespace roda::tools
