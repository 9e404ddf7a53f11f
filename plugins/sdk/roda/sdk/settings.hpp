// The settings of a plugin: one table that declares them, read once into a struct.
//
//   struct Settings { std::string interface; std::size_t lanes; };
//   constexpr sdk::Setting<Settings> kSettings[] = {
//       {&Settings::interface, "RODA_TCP_IFACE", "", "", "The interface to listen on; empty: chosen."},
//       {&Settings::lanes, "RODA_TCP_LANES", "connections", "1", 1, 16, "Connections between two ranks."}};
//   const Settings settings = sdk::read_settings(kSettings, host);
//   RODA_PLUGIN_SETTINGS(kSettings);  // beside RODA_TRANSPORT_PLUGIN: for whoever lists settings
//
// A name that begins with RODA_TEST_ is an option of tests, and is not shown to users.
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/settings.h>
#include <roda/sdk/error.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <variant>

namespace roda::sdk {

// The text of a setting, null when it is unset or empty. Any thread; `host` may be null.
inline const char* knob(const roda_host* host, const char* name) {
  const char* text = host != nullptr && host->knob != nullptr ? host->knob(host->self, name) : nullptr;
  return text != nullptr && *text != '\0' ? text : nullptr;
}

// A line of the host's log. Any thread; `host` may be null.
inline void log(const roda_host* host, int level, const char* component, const std::string& text) {
  if (host != nullptr && host->log != nullptr) host->log(host->self, level, component, text.c_str());
}

// A whole number from `least` to `most`. Throws Failure, which names the setting, the text and what is accepted.
inline std::int64_t parse_number(const char* name, const char* text, std::int64_t least, std::int64_t most) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text, &end, 10);
  if (end != text && *end == '\0' && errno == 0 && number >= least && number <= most) return number;
  const bool is_number = end != text && *end == '\0';
  throw Failure(RODA_ERR_INVALID, std::string(name) + "=" + text +
                                      (is_number ? " is out of range; " : " is not a number; ") +
                                      std::to_string(least) + " to " + std::to_string(most) + " is expected");
}

// One row: where the value goes, and what is told of it.
template <typename Values>
struct Setting {
  using Member = std::variant<std::string Values::*, bool Values::*, int Values::*, std::uint32_t Values::*,
                              std::size_t Values::*>;
  // A text.
  constexpr Setting(std::string Values::*to, const char* name, const char* unit, const char* standard,
                    const char* meaning)
      : member(to), told{sizeof told, 0, name, unit, standard, 0, 0, meaning} {}
  // A number; of a bool 0 and 1.
  template <typename Number>
  constexpr Setting(Number Values::*to, const char* name, const char* unit, const char* standard, std::int64_t least,
                    std::int64_t most, const char* meaning)
      : member(to), told{sizeof told, 1, name, unit, standard, least, most, meaning} {}

  // Not inlined: GCC 12 would warn of the members that a known row does not name.
  [[gnu::noinline]] void read(const roda_host* host, Values* values) const {
    const char* given = knob(host, told.name);
    const char* text = given != nullptr ? given : told.default_text;
    std::visit(
        [&](auto to) {
          using Value = std::remove_reference_t<decltype(values->*to)>;
          if constexpr (std::is_same_v<Value, std::string>) {
            values->*to = text;
          } else {
            values->*to = static_cast<Value>(parse_number(told.name, text, told.least, told.most));
          }
        },
        member);
  }

  Member member;
  roda_setting told;
};

template <typename Values, std::size_t kCount>
Values read_settings(const Setting<Values> (&table)[kCount], const roda_host* host) {
  Values values{};
  for (const Setting<Values>& setting : table) setting.read(host, &values);
  return values;
}

template <typename Values, std::size_t kCount>
const roda_setting* setting_at(const Setting<Values> (&table)[kCount], std::uint32_t index) {
  return index < kCount ? &table[index].told : nullptr;
}

}  // namespace roda::sdk

// Exports the table. Use it outside every namespace.
#define RODA_PLUGIN_SETTINGS(table)                                                                               \
  extern "C" __attribute__((visibility("default"))) const roda_setting* roda_settings_v1(uint32_t index);         \
  extern "C" const roda_setting* roda_settings_v1(uint32_t index) { return roda::sdk::setting_at(table, index); } \
  static_assert(true, "")
