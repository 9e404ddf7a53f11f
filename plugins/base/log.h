// Logging: one line per message, one write(2) per line, usable before init and from any thread.
//
//   RODA_LOG(info, "joined as rank {} of {}", rank, size);
//
// prints `[2026-01-31 12:00:00.123456: I file.cc:42] [3]: joined as rank 3 of 8`; without a rank set the bracket with
// it is left out. Levels up to info go to stdout, the others to stderr; fatal aborts the process after the line is
// written.
#pragma once

#include <string_view>
#include <utility>

#include "plugins/base/format.h"

namespace roda::logging {

enum class Level : int { trace, debug, info, warning, error, fatal };

// What the environment says, read once, at the first message.
struct Verbosity {
  Level level = Level::warning;  // HOROVOD_LOG_LEVEL: a name in any case; an unknown one is `warning`
  bool hides_time = false;       // HOROVOD_LOG_HIDE_TIME: a number above 0
};
// Tests change it, before there are threads.
Verbosity& verbosity();

// -1: no rank yet.
void set_rank(int rank);

inline bool enabled(Level level) { return level >= verbosity().level; }

// Writes whatever the level says, without asking enabled(). `file` is cut to its last component; line 0 leaves the line
// number out, for texts that come from a named component.
void write_text(Level level, const char* file, int line, std::string_view text);

template <typename... Args>
void write(Level level, const char* file, int line, fmt::format_string<Args...> format, Args&&... args) {
  write_text(level, file, line, roda::vformat(format, fmt::make_format_args(args...)));
}

}  // namespace roda::logging

#define RODA_LOG(level_name, ...)                                                                  \
  do {                                                                                             \
    if (::roda::logging::enabled(::roda::logging::Level::level_name))                              \
      ::roda::logging::write(::roda::logging::Level::level_name, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
