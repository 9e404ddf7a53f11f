#include "core/observe/rank_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string_view>

#include "plugins/base/format.h"

namespace roda::observe {
namespace {

constexpr double kMuchRead = 5;       // MB a second
constexpr double kManyPages = 10000;  // a second

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

// The main thread's time in the kernel: the 15th number of a line whose second, in brackets, has any characters.
std::int64_t kernel_time(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::istringstream behind(line.substr(std::min(line.rfind(')'), line.size() - 1) + 1));
  std::string word;
  for (int i = 3; i < 15 && behind >> word; ++i) {
  }
  std::int64_t ticks = 0;
  behind >> ticks;
  return ticks * (1'000'000'000 / std::max<std::int64_t>(::sysconf(_SC_CLK_TCK), 1));
}

}  // namespace

RankLoad read_load(const std::string& root) {
  RankLoad load;
  load.at = std::chrono::steady_clock::now().time_since_epoch().count();
  std::ifstream(root + "/proc/self/schedstat") >> load.ran >> load.queued;
  load.kernel = kernel_time(root + "/proc/self/task/" + std::to_string(::getpid()) + "/stat");
  load.throttled = throttled(root);
  load.stalled = number_behind(root + "/proc/pressure/memory", "total") * 1000;  // of "some", which comes first
  load.read = number_behind(root + "/proc/self/io", "rchar:");
  load.fetched = number_behind(root + "/proc/self/io", "read_bytes:");
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    load.faults = usage.ru_majflt;
    load.new_pages = usage.ru_minflt;
  }
  load.links = read_links();
  return load;
}

std::int32_t share_of(std::int64_t RankLoad::*time, const RankLoad& before, const RankLoad& after) {
  const std::int64_t passed = after.at - before.at;
  return before.at == 0 || passed <= 0 ? 0 : static_cast<std::int32_t>((after.*time - before.*time) * 1000 / passed);
}

std::string cause_of(const RankLoad& before, const RankLoad& after, std::int32_t share, const OthersLoad& others) {
  if (before.at == 0 || after.at <= before.at) return "its kernel has not been asked twice yet";
  const std::int32_t half = share / 2;  // of the lateness: what explains less is not the cause
  const auto part = [&](std::int64_t RankLoad::*time) { return share_of(time, before, after); };
  const double seconds = static_cast<double>(after.at - before.at) / 1e9;
  const auto a_second = [&](std::int64_t RankLoad::*count) {
    return static_cast<double>(after.*count - before.*count) / seconds;
  };
  const auto say = [](std::string_view what, std::int32_t per_mille, std::string_view more = "") {
    return roda::format("{}, {:.0f} % of the time{}", what, per_mille / 10.0, more);
  };
  const std::int32_t asleep = 1000 - part(&RankLoad::ran) - part(&RankLoad::queued);
  // The others sleep while they wait, too, and all do where a device works for them.
  const std::int32_t others_asleep = std::max(1000 - others.ran - others.queued - share, 0);
  const std::int32_t kernel = part(&RankLoad::kernel);
  if (part(&RankLoad::throttled) >= half) return say("its cgroup is throttled", part(&RankLoad::throttled));
  // A thread that computes for longer waits for a core for longer, where cores are short for all.
  const std::int32_t queued = part(&RankLoad::queued);
  const std::int32_t collected = part(&RankLoad::collected) - others.collected;
  const std::int32_t short_of_cores =
      queued - others.queued * std::max(part(&RankLoad::ran), 1) / std::max(others.ran, 1);
  if (short_of_cores >= half && short_of_cores > collected) return say(kShortOfCores, queued);
  if (part(&RankLoad::stalled) >= half && after.faults > before.faults) {
    return say("memory is short on its host", part(&RankLoad::stalled));
  }
  if (collected >= half) return say("Python's garbage collection runs in it", part(&RankLoad::collected));
  const LinkFault link = worst_link(before.links, after.links, after.at - before.at);
  if (std::string words = cause_of_links(link, others.link, share); !words.empty()) return words;
  if (asleep - others_asleep >= half) {
    const double fetched = a_second(&RankLoad::fetched) / 1e6;
    if (fetched >= kMuchRead)
      return say("its main thread sleeps", asleep, roda::format(", and {:.0f} MB a second come from a disk", fetched));
    return say("its main thread sleeps", asleep, ", or is stopped");
  }
  const double read = a_second(&RankLoad::read) / 1e6;
  const double pages = a_second(&RankLoad::new_pages);
  const std::int32_t ran_more = part(&RankLoad::ran) - others.ran;
  // Where cores are short a rank is late for more than what it runs for.
  const bool runs_for_it = (pages >= kManyPages || read >= kMuchRead) && ran_more >= half / 2;
  if (kernel - others.kernel >= (runs_for_it ? std::min(half, ran_more / 2) : half)) {
    return say("its main thread is in the kernel", kernel,
               pages >= kManyPages ? roda::format(", for {:.0f} new pages a second", pages)
               : read >= kMuchRead ? roda::format(", and reads {:.0f} MB a second of files", read)
                                   : "");
  }
  return "its main thread computes all the time";
}

}  // namespace roda::observe
