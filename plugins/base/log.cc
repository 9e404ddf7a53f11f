#include "plugins/base/log.h"

#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>

namespace roda::logging {

namespace detail {
std::atomic<int> threshold{kUnread};
}  // namespace detail

namespace {

constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "fatal"};
constexpr char kLetters[] = "TDIWEF";

std::atomic<bool> g_hide_time{false};
std::atomic<int> g_rank{-1};

void read_environment() {
  if (detail::threshold.load(std::memory_order_acquire) != detail::kUnread) return;
  const char* hide = std::getenv("HOROVOD_LOG_HIDE_TIME");
  if (hide != nullptr && std::strtol(hide, nullptr, 10) > 0) g_hide_time.store(true, std::memory_order_relaxed);
  int unread = detail::kUnread;
  int wanted = static_cast<int>(parse_level(std::getenv("HOROVOD_LOG_LEVEL")));
  detail::threshold.compare_exchange_strong(unread, wanted, std::memory_order_acq_rel);
}

std::string prefix(Level level, const char* file, int line) {
  std::string out = "[";
  if (!g_hide_time.load(std::memory_order_relaxed)) {
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

bool detail::enabled_slow(Level level) {
  read_environment();
  return static_cast<int>(level) >= threshold.load(std::memory_order_relaxed);
}

Level parse_level(const char* name) {
  if (name != nullptr) {
    for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i) {
      if (strcasecmp(name, kNames[i]) == 0) return static_cast<Level>(i);
    }
  }
  return Level::warning;
}

Level level() {
  read_environment();
  return static_cast<Level>(detail::threshold.load(std::memory_order_relaxed));
}

void set_level(Level level) {
  read_environment();
  detail::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
}

void set_hide_time(bool hide) {
  read_environment();
  g_hide_time.store(hide, std::memory_order_relaxed);
}

void set_rank(int rank) { g_rank.store(rank, std::memory_order_relaxed); }

void write_text(Level level, const char* file, int line, std::string_view text) {
  read_environment();
  emit(level, prefix(level, file, line) += text);
}

void write_formatted(Level level, const char* file, int line, fmt::string_view format, fmt::format_args args) {
  read_environment();
  emit(level, prefix(level, file, line) + roda::vformat(format, args));
}

}  // namespace roda::logging
