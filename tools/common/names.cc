#include "tools/common/names.h"

#include <roda/abi/types.h>

#include <cctype>

namespace roda::tools {

namespace {

std::string plain(const std::string& name) {
  std::string result;
  for (const char letter : name) {
    if (letter != '-' && letter != '_') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return result;
}

template <typename NameOf>
std::optional<std::int32_t> find(const std::string& name, std::int32_t count, NameOf name_of) {
  for (std::int32_t value = 0; value < count; ++value) {
    if (plain(name_of(value)) == plain(name)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int32_t> parse_collective(const std::string& name) {
  const auto value = find(name, RODA_COLLECTIVE_COUNT, roda_collective_name);
  for (const std::int32_t known : measurable_collectives()) {
    if (value == known) return value;
  }
  return std::nullopt;
}

std::optional<std::int32_t> parse_dtype(const std::string& name) {
  return find(name, RODA_DTYPE_COUNT, roda_dtype_name);
}

std::optional<std::int32_t> parse_reduce_op(const std::string& name) {
  return find(name, RODA_REDUCE_OP_COUNT, roda_reduce_op_name);
}

std::string no_collective(const std::string& name) {
  std::string text = "no collective: " + name;
  const char* separator = " (one of ";
  for (const std::int32_t known : measurable_collectives()) {
    text += separator + collective_text(known);
    separator = ", ";
  }
  return text + ")";
}

std::string collective_text(std::int32_t collective) { return plain(roda_collective_name(collective)); }

const std::vector<std::int32_t>& measurable_collectives() {
  static const std::vector<std::int32_t> all = [] {
    std::vector<std::int32_t> found;
    for (std::int32_t number = 0; number < RODA_COLLECTIVE_COUNT; ++number) {
      if (roda_collective_is(number, RODA_RUNS | RODA_SUBMITTED) != 0) found.push_back(number);
    }
    return found;
  }();
  return all;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char letter : text + ",") {
    if (letter != ',') {
      if (std::isspace(static_cast<unsigned char>(letter)) == 0) part += letter;
    } else if (!part.empty()) {
      parts.push_back(std::move(part));
      part.clear();
    }
  }
  return parts;
}

}  // namespace roda::tools
