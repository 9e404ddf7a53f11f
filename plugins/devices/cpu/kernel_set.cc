// Compiled once per instruction set, with that set's flags, its name and that of its function (kernels.h).
#include "plugins/devices/cpu/kernels_impl.h"

namespace roda::cpu {

namespace {
constexpr Kernels kTable = make_kernels(RODA_CPU_ISA);
}  // namespace

const Kernels& RODA_CPU_KERNELS() { return kTable; }

}  // namespace roda::cpu
