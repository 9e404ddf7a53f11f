#include "core/knobs/knobs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/knobs/table.h"
#include "plugins/base/format.h"

namespace roda {

using knobs::Agreement;
using knobs::Form;
using knobs::Reader;
using knobs::Row;
using knobs::table;

Knobs::Knobs() : given_(table().size()) {
  std::string ignored;
  for (const Row& row : table()) {
    if (row.default_text == nullptr || row.default_text[0] == '\0') continue;
    // A test holds that every default is well-formed.
    static_cast<void>(knobs::assign(row, row.default_text, this, &ignored));
  }
}

Knobs Knobs::from_environment(const Getter& getter, Status* status) {
  Knobs result;
  for (std::size_t i = 0; i < table().size(); ++i) {
    const Row& row = table()[i];
    const char* text = getter(row.name);
    if (text == nullptr || text[0] == '\0') continue;
    std::string warning;
    *status = knobs::assign(row, text, &result, &warning);
    if (!status->ok()) return Knobs();
    result.given_[i] = text;
    if (!warning.empty()) result.warnings_.push_back(warning);
    if (row.reader == Reader::kNobody) {
      result.warnings_.push_back(roda::format("{} has no effect in this version", row.name));
    }
  }
  *status = Status();
  return result;
}

Knobs Knobs::from_environment(Status* status) { return from_environment(std::getenv, status); }

bool Knobs::is_set(std::string_view name) const {
  for (std::size_t i = 0; i < table().size(); ++i) {
    if (name == table()[i].name) return given_[i].has_value();
  }
  return false;
}

namespace {

std::string shown(const Row& row, const Knobs& knobs, const std::optional<std::string>& given) {
  if (row.form == Form::kSecret) return given ? "(hidden)" : "unset";
  if (std::holds_alternative<std::monostate>(row.member))
    return given.value_or(row.default_text ? row.default_text : "");
  if (row.default_text == nullptr && !given) return "unset";
  return knobs::render(row, knobs);
}

std::string json_row(const Row& row, const std::string& value, bool given) {
  return roda::format(
      R"({{"name": {}, "value": {}, "source": "{}", "type": {}, "default": {}, "unit": {}, "same_on_all_ranks": {}, )"
      R"("read_by": {}, "help": {}}})",
      json_quote(row.name), json_quote(value), given ? "environment" : "default", json_quote(form_name(row.form)),
      row.default_text != nullptr ? json_quote(row.default_text) : "null", json_quote(row.unit),
      row.agreement == Agreement::kFree ? "false" : "true", json_quote(reader_name(row.reader)), json_quote(row.help));
}

std::string text_row(const Row& row, const std::string& value, bool given) {
  std::string unit = row.unit[0] != '\0' ? roda::format(" {}", row.unit) : "";
  std::string marks = row.agreement == Agreement::kFree ? "" : ", same on all ranks";
  if (row.reader != Reader::kCore) marks += roda::format(", {}", reader_name(row.reader));
  return roda::format(
      "{}{:<39} = {}  [{}{}{}; {}]\n    {}\n", given ? "* " : "  ", row.name, value, form_name(row.form), unit, marks,
      row.default_text != nullptr ? roda::format("default {}", json_quote(row.default_text)) : "no default", row.help);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::vector<std::string> names_for_users(const std::vector<std::string>& declared) {
  std::vector<std::string> names = declared;
  for (const Row& row : table()) names.emplace_back(row.name);
  std::erase_if(names, [](const std::string& name) { return name.starts_with(knobs::kTestPrefix); });
  return names;
}

// Where a plugin's own name is taken for one of ours that was misspelt.
constexpr std::size_t kTypingError = 2;

bool belongs_to_plugin(std::string_view name, const std::vector<std::string>& plugins) {
  return std::ranges::any_of(plugins, [&](const std::string& plugin) {
    const std::string behind = plugin + "_";
    const std::string_view own = name.substr(name.find('_') + 1);
    return own.size() > behind.size() && strncasecmp(own.data(), behind.c_str(), behind.size()) == 0;
  });
}

}  // namespace

std::string Knobs::describe(bool as_json, const DeclaredSettings& of_plugins) const {
  std::string out = as_json ? "[\n" : "Settings (* = set in the environment)\n";
  const char* separator = "  ";
  const auto add = [&](const Row& row, const std::optional<std::string>& given) {
    if (row.reader == Reader::kTest || std::string_view(row.name).starts_with(knobs::kTestPrefix)) return;
    const std::string value = shown(row, *this, given);
    out += as_json ? separator + json_row(row, value, given.has_value()) : text_row(row, value, given.has_value());
    separator = ",\n  ";
  };
  for (std::size_t i = 0; i < table().size(); ++i) add(table()[i], given_[i]);
  for (const roda_setting* setting : of_plugins) {
    const char* given = std::getenv(setting->name);
    const auto is_it = [&](const Row& row) { return std::string_view(row.name) == setting->name; };
    if (std::ranges::none_of(table(), is_it)) add(knobs::row_of(*setting), given ? std::optional(given) : std::nullopt);
  }
  return as_json ? out + "\n]\n" : out;
}

std::string Knobs::agreement_text() const {
  std::string out;
  for (std::size_t i = 0; i < table().size(); ++i) {
    const Row& row = table()[i];
    if (row.agreement == Agreement::kSame) out += roda::format("{}={}\n", row.name, shown(row, *this, given_[i]));
    if (row.agreement == Agreement::kSamePresence)
      out += roda::format("{}={}\n", row.name, given_[i] ? "set" : "unset");
  }
  return out;
}

Status check(const DeclaredSettings& of_plugins, const Knobs::Getter& getter) {
  Knobs ignored;
  std::string warning;
  for (const roda_setting* setting : of_plugins) {
    const char* text = getter(setting->name);
    if (text != nullptr && *text != '\0') {
      RODA_RETURN_IF_ERROR(knobs::assign(knobs::row_of(*setting), text, &ignored, &warning));
    }
  }
  return {};
}

std::vector<std::string> unknown_settings(const char* const* environment, const std::vector<std::string>& declared,
                                          const std::vector<std::string>& silent) {
  const std::vector<std::string> known = names_for_users(declared);
  std::vector<std::string> warnings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    std::string_view name(*environment);
    name = name.substr(0, name.find('='));
    if (!name.starts_with("HOROVOD_") && !name.starts_with("RODA_")) continue;
    if (name.starts_with(knobs::kTestPrefix) || std::ranges::find(known, name) != known.end()) continue;
    const auto closer = [name](const std::string& a, const std::string& b) {
      return edit_distance(name, a) < edit_distance(name, b);
    };
    const std::string& nearest = *std::ranges::min_element(known, closer);
    if (belongs_to_plugin(name, silent) && edit_distance(name, nearest) > kTypingError) continue;
    // A name that has little in common with the given one is no help.
    const bool is_near = edit_distance(name, nearest) * 3 <= name.size();
    const std::string hint = is_near ? "the nearest is " + nearest : "`roda-info --env` prints those that there are";
    warnings.push_back(roda::format("{} is no setting of this version and is ignored; {}", name, hint));
  }
  return warnings;
}

}  // namespace roda
