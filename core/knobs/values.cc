// Between the text of a variable and the typed member.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/knobs/table.h"
#include "plugins/base/format.h"

namespace roda::knobs {

namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

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

Status malformed(const Row& row, const std::string& text, const std::string& expected) {
  std::string unit = row.unit[0] != '\0' ? roda::format(" ({})", row.unit) : "";
  std::string lead = row.refusal != nullptr ? roda::format("{}: ", row.refusal) : "";
  return Status::invalid(roda::format("{}{}='{}': expected {}{}", lead, row.name, text, expected, unit));
}

bool in_bounds(const Row& row, double value) { return value >= row.min && value <= row.max; }

Status checked_integer(const Row& row, const std::string& text, std::int64_t limit, std::int64_t* value) {
  std::optional<std::int64_t> parsed = parse_integer(text);
  if (!parsed || !in_bounds(row, static_cast<double>(*parsed)) || *parsed > limit || *parsed < -limit) {
    return malformed(row, text, "an integer" + bounds(row));
  }
  *value = *parsed;
  return {};
}

Status checked_number(const Row& row, const std::string& text, double* value) {
  std::optional<double> parsed = parse_number(text);
  if (!parsed || !in_bounds(row, *parsed)) return malformed(row, text, "a number" + bounds(row));
  *value = *parsed;
  return {};
}

Status checked_list(const Row& row, const std::string& text, std::vector<int>* values) {
  std::vector<int> out;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t comma = std::min(text.find(',', at), text.size());
    std::optional<std::int64_t> parsed = parse_integer(std::string_view(text).substr(at, comma - at));
    if (!parsed || !in_bounds(row, static_cast<double>(*parsed))) {
      return malformed(row, text, "integers" + bounds(row) + ", separated by commas");
    }
    out.push_back(static_cast<int>(*parsed));
    at = comma + 1;
  }
  *values = std::move(out);
  return {};
}

Status checked_word(const Row& row, const std::string& text, std::string* value) {
  std::string word = lower(text);
  if (row.choices != nullptr) {
    std::string all = roda::format(" {} ", row.choices);
    if (word.find(' ') != std::string::npos || all.find(" " + word + " ") == std::string::npos) {
      return malformed(row, text, roda::format("one of: {}", row.choices));
    }
  }
  *value = std::move(word);
  return {};
}

bool read_flag(const Row& row, const std::string& text, std::string* warning) {
  if (!parse_integer(text)) {
    *warning = roda::format("{}='{}' is no integer and counts as {}; use 1 or 0", row.name, text,
                            std::strtol(text.c_str(), nullptr, 10));
  }
  long value = std::strtol(text.c_str(), nullptr, 10);
  return row.form == Form::kFlag ? value > 0 : value != 0;
}

// A wrong value is found before the plugin is asked; other programs' rows are theirs.
Status check_for_plugin(const Row& row, const std::string& text) {
  std::int64_t ignored = 0;
  if (row.reader != Reader::kPlugin || row.form != Form::kInteger) return {};
  return checked_integer(row, text, INT64_MAX, &ignored);
}

}  // namespace

Status assign(const Row& row, const std::string& text, Knobs* knobs, std::string* warning) {
  return std::visit(
      Overloaded{
          [&](std::monostate) { return check_for_plugin(row, text); },
          [&](bool Knobs::*member) {
            knobs->*member = read_flag(row, text, warning);
            return Status();
          },
          [&](int Knobs::*member) {
            std::int64_t value = 0;
            RODA_RETURN_IF_ERROR(checked_integer(row, text, INT32_MAX, &value));
            knobs->*member = static_cast<int>(value);
            return Status();
          },
          [&](std::int64_t Knobs::*member) { return checked_integer(row, text, INT64_MAX, &(knobs->*member)); },
          [&](double Knobs::*member) { return checked_number(row, text, &(knobs->*member)); },
          [&](std::string Knobs::*member) {
            if (row.form == Form::kWord) return checked_word(row, text, &(knobs->*member));
            knobs->*member = text;
            return Status();
          },
          [&](std::optional<int> Knobs::*member) {
            std::int64_t value = 0;
            RODA_RETURN_IF_ERROR(checked_integer(row, text, INT32_MAX, &value));
            knobs->*member = static_cast<int>(value);
            return Status();
          },
          [&](std::optional<double> Knobs::*member) {
            double value = 0;
            RODA_RETURN_IF_ERROR(checked_number(row, text, &value));
            knobs->*member = value;
            return Status();
          },
          [&](std::vector<int> Knobs::*member) { return checked_list(row, text, &(knobs->*member)); },
      },
      row.member);
}

std::string render(const Row& row, const Knobs& knobs) {
  return std::visit(Overloaded{
                        [](std::monostate) { return std::string(); },
                        [&](std::string Knobs::*member) { return knobs.*member; },
                        [&](bool Knobs::*member) { return std::string(knobs.*member ? "1" : "0"); },
                        [&](std::optional<int> Knobs::*member) {
                          return knobs.*member ? roda::format("{}", *(knobs.*member)) : std::string("unset");
                        },
                        [&](std::optional<double> Knobs::*member) {
                          return knobs.*member ? roda::format("{}", *(knobs.*member)) : std::string("unset");
                        },
                        [&](std::vector<int> Knobs::*member) { return roda::join(knobs.*member, ","); },
                        [&](auto member) { return roda::format("{}", knobs.*member); },
                    },
                    row.member);
}

}  // namespace roda::knobs
