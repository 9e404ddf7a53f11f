#include "plugins/base/wait_policy.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "plugins/base/cgroup.h"

namespace roda {

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
