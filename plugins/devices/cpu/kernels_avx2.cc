#include "plugins/devices/cpu/kernels_impl.h"

namespace roda::cpu {

namespace {
constexpr Kernels kTable = make_kernels("avx2");
}  // namespace

const Kernels& avx2_kernels() { return kTable; }

}  // namespace roda::cpu
