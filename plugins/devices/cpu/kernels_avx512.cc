#include "plugins/devices/cpu/kernels_impl.h"

namespace roda::cpu {

namespace {
constexpr Kernels kTable = make_kernels("avx512");
}  // namespace

const Kernels& avx512_kernels() { return kTable; }

}  // namespace roda::cpu
