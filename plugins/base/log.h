// Logging: one line per message, one write(2) per line, usable before init and from any thread.
//
//   RODA_LOG(info, "joined as rank {} of {}", rank, size);
//
// prints `[2026-01-31 12:00:00.123456: I file.cc:42] [3]: joined as rank 3 of 8`; without a rank set the bracket with
// it is left out. Levels up to info go to stdout, the others to stderr; fatal aborts the process after the line is
// written. HOROVOD_LOG_LEVEL (default warning) and HOROVOD_LOG_HIDE_TIME are read once, at the first message.
#pragma once

#include <atomic>
#include <string_view>
#include <utility>

#include "plugins/base/format.h"

namespace roda::logging {

enum class Level : int { trace, debug, info, warning, error, fatal };

// Case-insensitive; an unknown or null name is `warning`.
Level parse_level(const char* name);
Level level();
void set_level(Level level);
void set_hide_time(bool hide);
// -1: no rank yet.
void set_rank(int rank);

namespace detail {
inline constexpr int kUnread = -1;
extern std::atomic<int> threshold;  // kUnread until the environment was read
bool enabled_slow(Level level);
}  // namespace detail

inline bool enabled(Level level) {
  int threshold = detail::threshold.load(std::memory_order_relaxed);
  if (static_cast<int>(level) < threshold) return false;
  return threshold != detail::kUnread || detail::enabled_slow(level);
}

// Writes whatever the level says, without asking enabled(). `file` is cut to its last component; line 0 leaves the line
// number out, for texts that come from a named component.
void write_text(Level level, const char* file, int line, std::string_view text);
void write_formatted(Level level, const char* file, int line, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void write(Level level, const char* file, int line, fmt::format_string<Args...> format, Args&&... args) {
  write_formatted(level, file, line, format, fmt::make_format_args(args...));
}

}  // namespace roda::logging

#define RODA_LOG(level_name, ...)                                                                  \
  do {                                                                                             \
    if (::roda::logging::enabled(::roda::logging::Level::level_name))                              \
      ::roda::logging::write(::roda::logging::Level::level_name, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
