// The table of settings: one row each. Adding a setting is a member of Knobs and a row here; plugins' settings are rows
// of their own tables.
#pragma once

#include <roda/abi/settings.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "core/knobs/knobs.h"

namespace roda::knobs {

enum class Form : std::uint8_t {
  kFlag,         // integer > 0 is true; text that is no integer is false, as Horovod reads it
  kFlagNonZero,  // any integer but 0 is true
  kInteger,
  kNumber,
  kText,
  kWord,  // lower-cased
  kSecret,
};

enum class Agreement : std::uint8_t { kFree, kSame, kSamePresence };

// Who acts on it. kPlugin: a plugin, by the host's knob(); what is no value of the row is refused here all the same.
// kTest: for our tests, by a name that begins with RODA_TEST_; not shown to users. kNobody: accepted for compatibility,
// no effect in this version.
enum class Reader : std::uint8_t { kCore, kPlugin, kTest, kLauncher, kBuild, kNobody };

using Member = std::variant<std::monostate, bool Knobs::*, int Knobs::*, std::int64_t Knobs::*, double Knobs::*,
                            std::string Knobs::*, std::optional<int> Knobs::*, std::optional<double> Knobs::*>;

inline constexpr const char* kOwnRendezvous = "gloo";  // HOROVOD_CONTROLLER's name for it, as in Horovod
inline constexpr const char* kTestPrefix = "RODA_TEST_";

struct Row {
  const char* name;
  Form form;
  const char* default_text;  // null: unset
  const char* unit;          // "" where there is none
  Agreement agreement;
  Reader reader;
  Member member;  // two rows may share one: the later row wins
  const char* help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

std::span<const Row> table();
Row row_of(const roda_setting& told);

// Stores the text in the row's member. *warning is set when the value is odd but accepted.
Status assign(const Row& row, const std::string& text, Knobs* knobs, std::string* warning);
// The member's value as text; "unset" for an empty optional. Rows without a member: "".
std::string render(const Row& row, const Knobs& knobs);

const char* form_name(Form form);
const char* reader_name(Reader reader);

}  // namespace roda::knobs
