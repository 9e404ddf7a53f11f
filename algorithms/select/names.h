// The names that a table is written in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "algorithms/select/table.h"

namespace roda::select {

inline constexpr const char* kNative = "native";  // the transport's own collective instead of a schedule
inline constexpr const char* kAnyTransport = "*";

std::optional<schedule::Collective> collective_named(std::string_view name);
std::optional<Memory> memory_named(std::string_view name);
const char* memory_name(Memory memory);

// For error messages: "a, b, c".
std::string list_of_collectives();
std::string list_of_algorithms(schedule::Collective collective);

}  // namespace roda::select
