#include "plugins/base/wait_policy.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace roda {

namespace {

// 0: none.
double smaller_limit(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// cgroup v2: "max 100000" or "50000 100000".
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota)) return 0;
  if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period)) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// A limit may stand at any level above the process; inside a container its own group is often shown as the root.
double smallest_up(const std::string& root, std::string path, double (*quota)(const std::string&)) {
  double least = quota(root);
  while (path.size() > 1) {
    least = smaller_limit(least, quota(root + path));
    path.erase(path.rfind('/'));
  }
  return least;
}

}  // namespace

double cgroup_cpu_limit(const std::string& root) {
  double least = 0;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines of "id:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    std::size_t first = line.find(':');
    std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    // Beside version 1, version 2 is mounted one level down.
    const bool is_v2 = controllers == ",,";
    const bool is_v1 = controllers.find(",cpu,") != std::string::npos;
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (is_v2) least = smaller_limit(least, smallest_up(root + mount, path, quota_v2));
    }
    for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
      if (is_v1) least = smaller_limit(least, smallest_up(root + mount, path, quota_v1));
    }
  }
  return least;
}

CoreBudget core_budget() {
  CoreBudget budget;
  static_assert(sizeof(cpu_set_t) == sizeof budget.cores);
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more cores than the set holds; then every core of it counts.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) std::memset(&set, 0xff, sizeof set);
  std::memcpy(budget.cores.data(), &set, sizeof set);
  budget.quota = cgroup_cpu_limit();
  return budget;
}

int cores_of(std::span<const CoreBudget> budgets) {
  std::array<std::uint64_t, 16> all{};
  double quota = 0;
  for (const CoreBudget& budget : budgets) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= budget.cores[i];
    quota = smaller_limit(quota, budget.quota);
  }
  int cores = 0;
  for (std::uint64_t word : all) cores += std::popcount(word);
  if (quota > 0) cores = std::min(cores, static_cast<int>(std::floor(quota)));
  return std::max(cores, 1);
}

void WaitPolicy::yield() { ::sched_yield(); }

}  // namespace roda
