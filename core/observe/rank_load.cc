#include "core/observe/rank_load.h"

#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string_view>

#include "plugins/base/format.h"

namespace roda::observe {
namespace {

// The number behind a word of the file; 0: there is none.
std::int64_t number_behind(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  for (std::string text; file >> text;) {
    std::int64_t number = 0;
    if (text == word && file >> number) return number;
    if (text.starts_with(word) && text.size() > word.size() && text[word.size()] == '=') {
      std::istringstream(text.substr(word.size() + 1)) >> number;
      return number;
    }
  }
  return 0;
}

// A limit may be set at any level above the process.
std::int64_t throttled_in(const std::string& folder, std::string path) {
  std::int64_t sum = 0;
  for (;;) {
    sum += number_behind(folder + path + "/cpu.stat", "throttled_usec") * 1000;  // version 2
    sum += number_behind(folder + path + "/cpu.stat", "throttled_time");         // version 1
    if (path.empty()) return sum;
    path.resize(path.find_last_of('/'));
  }
}

std::int64_t throttled(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/pod/one", "0::/pod/one"
    const auto names = line.find(':');
    const auto path = line.find(':', names + 1);
    if (names == std::string::npos || path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(names + 1, path - names - 1) + ",";
    std::string below = line.substr(path + 1);
    if (below == "/" || !below.starts_with('/')) below.clear();
    if (controllers == ",,") {
      if (const auto sum = throttled_in(root + "/sys/fs/cgroup", below); sum != 0) return sum;
    } else if (controllers.find(",cpu,") != std::string::npos) {
      if (const auto sum = throttled_in(root + "/sys/fs/cgroup/cpu", below); sum != 0) return sum;
    }
  }
  return 0;
}

}  // namespace

RankLoad read_load(const std::string& root) {
  RankLoad load;
  load.at = std::chrono::steady_clock::now().time_since_epoch().count();
  std::ifstream(root + "/proc/self/schedstat") >> load.ran >> load.queued;
  load.throttled = throttled(root);
  load.stalled = number_behind(root + "/proc/pressure/memory", "total") * 1000;  // of "some", which comes first
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) load.faults = usage.ru_majflt;
  return load;
}

std::int32_t queued_share(const RankLoad& before, const RankLoad& after) {
  const std::int64_t time = after.at - before.at;
  return before.at == 0 || time <= 0 ? 0 : static_cast<std::int32_t>((after.queued - before.queued) * 1000 / time);
}

std::string cause_of(const RankLoad& before, const RankLoad& after, std::int32_t share, std::int32_t others_queued) {
  const auto time = static_cast<double>(after.at - before.at);
  if (before.at == 0 || time <= 0) return "";
  const double half = share / 2000.0;  // of the lateness: what explains less is not the cause
  const auto part = [time](std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / time; };
  const double throttled = part(before.throttled, after.throttled);
  const double queued = part(before.queued, after.queued);
  const double stalled = part(before.stalled, after.stalled);
  const double ran = part(before.ran, after.ran);
  if (throttled >= half) return roda::format("its cgroup is throttled, {:.0f} % of the time", 100 * throttled);
  if (queued - others_queued / 1000.0 >= half) {
    return roda::format("its main thread waits for a core, {:.0f} % of the time", 100 * queued);
  }
  if (stalled >= half && after.faults > before.faults) {
    return roda::format("memory is short on its host, {:.0f} % of the time", 100 * stalled);
  }
  if (1 - ran - queued >= half) {
    return roda::format("its main thread sleeps, {:.0f} % of the time, or is stopped", 100 * (1 - ran - queued));
  }
  return "its main thread computes all the time";
}

}  // namespace roda::observe
