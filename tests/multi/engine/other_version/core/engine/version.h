// Found before the real one by a program of the tests: a rank of another version.
#pragma once

namespace roda::engine {
inline constexpr const char* kVersion = "9.9.9";
}  // namespace roda::engine
