#include "tools/common/sizes.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace roda::tools {

namespace {

constexpr char kUnits[] = {'K', 'M', 'G', 'T'};

}  // namespace

std::optional<std::size_t> parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string unit;
  for (; *end != '\0'; ++end) {
    if (std::isspace(static_cast<unsigned char>(*end)) == 0) {
      unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*end)));
    }
  }
  double factor = 1;
  for (int power = 1; const char letter : kUnits) {
    if (unit == std::string(1, letter) || unit == std::string{letter, 'B'} || unit == std::string{letter, 'I', 'B'}) {
      factor = std::ldexp(1.0, 10 * power);
      unit.clear();
    }
    ++power;
  }
  const double bytes = number * factor;
  if ((!unit.empty() && unit != "B") || bytes > 1e18 || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

std::string no_size(const std::string& text) {
  return "no size: " + text + " (bytes, with K, M, G or T after them as in 64K and 1.5MiB)";
}

std::string format_size(std::size_t bytes) {
  std::size_t unit = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && unit < sizeof kUnits; ++unit) bytes /= 1024;
  return std::to_string(bytes) + (unit == 0 ? " B" : std::string{' ', kUnits[unit - 1], 'i', 'B'});
}

std::string typed_size(std::size_t bytes) {
  const std::string text = format_size(bytes);
  const std::size_t space = text.find(' ');
  return text.substr(0, space) + (text[space + 1] == 'B' ? "" : text.substr(space + 1, 1));
}

}  // namespace roda::tools
