#include "core/execute/wire.h"

#include <roda/abi/types.h>

#include <algorithm>

#include "plugins/base/invariant.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

std::uint64_t mixed(std::uint64_t seed) {
  seed = (seed ^ (seed >> 31)) * 0xbf58476d1ce4e5b9u;
  return seed ^ (seed >> 29);
}

// Times what one rounding may lose.
constexpr double kMostFedBack = 2;

}  // namespace

void encode(std::int32_t format, char* message, const float* values, std::size_t count, std::size_t first,
            std::span<const WireTensor> tensors, std::uint64_t draw, std::int32_t lost_of) {
  RODA_INVARIANT(!tensors.empty() && tensors.front().begin == 0, "what is encoded is of a tensor");
  const auto behind = std::ranges::upper_bound(tensors, first, {}, &WireTensor::begin);
  for (std::size_t next = static_cast<std::size_t>(behind - tensors.begin()); count > 0; ++next) {
    const WireTensor& tensor = tensors[next - 1];
    const std::size_t part = next < tensors.size() ? std::min(count, tensors[next].begin - first) : count;
    const std::size_t begin = first - tensor.begin;
    const std::uint64_t seed = mixed(tensor.seed + draw);
    if (lost_of > 0 && tensor.residual != nullptr) {
      const auto share = static_cast<float>(kMostFedBack * lost_of * roda_wire_formats[format].error);
      cpu::encode_fed(format, message, values, tensor.residual + begin, share, part, begin, seed);
    } else {
      cpu::encode(format, message, values, part, begin, seed);
    }
    message += roda_wire_bytes(format, part);
    values += part;
    first += part;
    count -= part;
  }
}

}  // namespace roda::execute
