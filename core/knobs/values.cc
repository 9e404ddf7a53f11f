// Between the text of a variable and the typed member.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/knobs/table.h"
#include "plugins/base/format.h"

namespace roda::knobs {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Exactly one integer, spaces around it allowed.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  std::int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value)) return std::nullopt;
  while (std::isspace(static_cast<unsigned char>(*end))) ++end;
  if (*end != '\0') return std::nullopt;
  return value;
}

std::string bounds(const Row& row) {
  if (std::isfinite(row.min) && std::isfinite(row.max)) return roda::format(" from {} to {}", row.min, row.max);
  if (std::isfinite(row.min)) return roda::format(" of at least {}", row.min);
  return "";
}

Status malformed(const Row& row, const std::string& text, const char* expected) {
  const std::string unit = row.unit[0] != '\0' ? roda::format(" ({})", row.unit) : "";
  return Status::invalid(roda::format("{}='{}': expected {}{}{}", row.name, text, expected, bounds(row), unit));
}

Status checked_integer(const Row& row, const std::string& text, std::int64_t limit, std::int64_t* value) {
  const std::optional<std::int64_t> parsed = parse_integer(text);
  const bool fits = parsed && *parsed <= limit && *parsed >= -limit;
  if (!fits || static_cast<double>(*parsed) < row.min || static_cast<double>(*parsed) > row.max) {
    return malformed(row, text, "an integer");
  }
  *value = *parsed;
  return {};
}

// --- by the member's type; *warning: the value is odd, but accepted -------------------------------------------------

Status read(const Row& row, const std::string& text, bool* value, std::string* warning) {
  const long number = std::strtol(text.c_str(), nullptr, 10);
  if (!parse_integer(text)) {
    *warning = roda::format("{}='{}' is no integer and counts as {}; use 1 or 0", row.name, text, number);
  }
  *value = row.form == Form::kFlag ? number > 0 : number != 0;
  return {};
}

Status read(const Row& row, const std::string& text, std::int64_t* value, std::string*) {
  return checked_integer(row, text, INT64_MAX, value);
}

Status read(const Row& row, const std::string& text, int* value, std::string*) {
  std::int64_t wide = 0;
  RODA_RETURN_IF_ERROR(checked_integer(row, text, INT32_MAX, &wide));
  *value = static_cast<int>(wide);
  return {};
}

Status read(const Row& row, const std::string& text, double* value, std::string*) {
  const std::optional<double> parsed = parse_number(text);
  if (!parsed || *parsed < row.min || *parsed > row.max) return malformed(row, text, "a number");
  *value = *parsed;
  return {};
}

Status read(const Row& row, const std::string& text, std::string* value, std::string*) {
  *value = row.form == Form::kWord ? lower(text) : text;
  return {};
}

template <typename T>
Status read(const Row& row, const std::string& text, std::optional<T>* value, std::string* warning) {
  return read(row, text, &value->emplace(), warning);
}

// What the core does not read: a plugin's integers are refused here, before it is asked; other programs' rows are
// theirs.
Status read(const Row& row, const std::string& text) {
  std::int64_t ignored = 0;
  const bool is_checked =
      row.form == Form::kInteger && (row.reader == Reader::kPlugin || row.reader == Reader::kNobody);
  return is_checked ? checked_integer(row, text, INT64_MAX, &ignored) : Status();
}

std::string shown(const std::string& value) { return value; }
std::string shown(bool value) { return value ? "1" : "0"; }
std::string shown(const auto& value) { return roda::format("{}", value); }
template <typename T>
std::string shown(const std::optional<T>& value) {
  return value ? roda::format("{}", *value) : "unset";
}

}  // namespace

Row row_of(const roda_setting& told) {
  const Form form = told.is_number != 0 ? Form::kInteger : Form::kText;
  const auto least = static_cast<double>(told.least), most = static_cast<double>(told.most);
  return {told.name,       form, told.default_text, told.unit, Agreement::kFree,
          Reader::kPlugin, {},   told.meaning,      least,     most};
}

Status assign(const Row& row, const std::string& text, Knobs* knobs, std::string* warning) {
  const auto assign_to = [&](auto member) {
    if constexpr (std::is_same_v<decltype(member), std::monostate>) {
      return read(row, text);
    } else {
      return read(row, text, &(knobs->*member), warning);
    }
  };
  return std::visit(assign_to, row.member);
}

std::string render(const Row& row, const Knobs& knobs) {
  const auto show = [&](auto member) -> std::string {
    if constexpr (std::is_same_v<decltype(member), std::monostate>) {
      return "";
    } else {
      return shown(knobs.*member);
    }
  };
  return std::visit(show, row.member);
}

}  // namespace roda::knobs
