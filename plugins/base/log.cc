#include "plugins/base/log.h"

#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>

namespace roda::logging {

namespace {

constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "fatal"};
constexpr char kLetters[] = "TDIWEF";

std::atomic<int> g_rank{-1};

Verbosity read_environment() {
  Verbosity read;
  const char* name = std::getenv("HOROVOD_LOG_LEVEL");
  for (int i = 0; name != nullptr && i < static_cast<int>(std::size(kNames)); ++i) {
    if (strcasecmp(name, kNames[i]) == 0) read.level = static_cast<Level>(i);
  }
  const char* hide = std::getenv("HOROVOD_LOG_HIDE_TIME");
  read.hides_time = hide != nullptr && std::strtol(hide, nullptr, 10) > 0;
  return read;
}

std::string prefix(Level level, const char* file, int line) {
  std::string out = "[";
  if (!verbosity().hides_time) {
    timeval now{};
    gettimeofday(&now, nullptr);
    tm local{};
    localtime_r(&now.tv_sec, &local);
    out += roda::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}: ", local.tm_year + 1900, local.tm_mon + 1,
                        local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, now.tv_usec);
  }
  const char* slash = std::strrchr(file, '/');
  out += roda::format("{} {}", kLetters[static_cast<int>(level)], slash != nullptr ? slash + 1 : file);
  if (line > 0) out += roda::format(":{}", line);
  out += "] ";
  int rank = g_rank.load(std::memory_order_relaxed);
  if (rank >= 0) out += roda::format("[{}]: ", rank);
  return out;
}

// The line is complete in one call unless the descriptor takes less, which pipes do only past their buffer.
void emit(Level level, std::string line) {
  line += '\n';
  int fd = level <= Level::info ? STDOUT_FILENO : STDERR_FILENO;
  const char* data = line.data();
  std::size_t left = line.size();
  while (left > 0) {
    ssize_t written = ::write(fd, data, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    data += written;
    left -= static_cast<std::size_t>(written);
  }
  if (level == Level::fatal) std::abort();
}

}  // namespace

Verbosity& verbosity() {
  static Verbosity read = read_environment();
  return read;
}

void set_rank(int rank) { g_rank.store(rank, std::memory_order_relaxed); }

void write_text(Level level, const char* file, int line, std::string_view text) {
  emit(level, prefix(level, file, line) += text);
}

}  // namespace roda::logging
