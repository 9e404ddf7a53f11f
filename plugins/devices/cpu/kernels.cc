#include "plugins/devices/cpu/kernels.h"

#if defined(RODA_CPU_X86_KERNELS)
#include <cpuid.h>
#endif

namespace roda::cpu {

namespace {

#if defined(RODA_CPU_X86_KERNELS)
// Not every compiler's __builtin_cpu_supports knows the name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

}  // namespace

std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> sets = {&baseline_kernels()};
#if defined(RODA_CPU_X86_KERNELS)
  __builtin_cpu_init();
  if (has_avx2()) sets.push_back(&avx2_kernels());
  if (has_avx512()) sets.push_back(&avx512_kernels());
#endif
  return sets;
}

const Kernels& kernels() {
  static const Kernels& best = *usable_kernels().back();
  return best;
}

}  // namespace roda::cpu
