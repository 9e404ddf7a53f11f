#include "algorithms/select/printer.h"

#include "algorithms/select/names.h"

namespace roda::select {
namespace {

// In the largest unit that is exact.
std::string size_text(std::size_t size) {
  if (size == SIZE_MAX) return "inf";
  static constexpr const char* kUnits[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && size != 0 && size % 1024 == 0) {
    size /= 1024;
    ++unit;
  }
  return std::to_string(size) + kUnits[unit];
}

std::string ranks_text(int least, int most) {
  if (least == most) return std::to_string(least);
  return std::to_string(least) + "-" + (most == INT32_MAX ? "" : std::to_string(most));
}

}  // namespace

std::string selector_text(const Table::Rule& rule) {
  std::string text = schedule::collective_name(rule.collective);
  if (rule.memory) text += std::string("@") + memory_name(*rule.memory);
  if (rule.from != 0 || rule.to != SIZE_MAX) text += ":" + size_text(rule.from) + "-" + size_text(rule.to);
  if (rule.min_ranks != 1 || rule.max_ranks != INT32_MAX)
    text += "[" + ranks_text(rule.min_ranks, rule.max_ranks) + "]";
  return text;
}

std::string rule_text(const Table::Rule& rule) {
  std::string text = selector_text(rule) + " =";
  for (std::size_t i = 0; i < rule.options.size(); ++i) {
    text += i == 0 ? " " : ", ";
    if (rule.forbidden[i]) text += "!";
    text += rule.options[i].transport + "/" + rule.options[i].algorithm;
  }
  return text;
}

std::string Table::to_text() const {
  std::string text;
  for (const Rule& rule : rules_) text += rule_text(rule) + "\n";
  return text;
}

std::uint64_t Table::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : to_text()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace roda::select
