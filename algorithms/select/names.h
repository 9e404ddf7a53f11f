// The names that a table is written in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "algorithms/select/table.h"

namespace roda::select {

inline constexpr const char* kNative = "native";  // the transport's own collective instead of a schedule
inline constexpr const char* kAnyTransport = "*";
// In place of a transport: a composition of collectives inside hosts and across them, each by what the table says.
inline constexpr const char* kLevels = "levels";

std::optional<schedule::Collective> collective_named(std::string_view name);
std::optional<Memory> memory_named(std::string_view name);
const char* memory_name(Memory memory);

// For error messages: "a, b, c".
std::string list_of_collectives();
std::string list_of_algorithms(schedule::Collective collective);
std::string list_of_compositions(schedule::Collective collective);

// The compositions there are, and what they are made of.
bool is_composition(schedule::Collective collective, std::string_view name);

}  // namespace roda::select
