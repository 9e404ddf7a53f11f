#include "plugins/devices/cpu/kernels_impl.h"

namespace roda::cpu {

namespace {
constexpr Kernels kTable = make_kernels("baseline");
}  // namespace

const Kernels& baseline_kernels() { return kTable; }

}  // namespace roda::cpu
