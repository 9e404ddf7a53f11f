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

}  // namespace

void encode(std::int32_t format, char* message, const float* values, std::size_t count, std::size_t first,
            std::span<const WireTensor> tensors, std::uint64_t draw) {
  RODA_INVARIANT(!tensors.empty() && tensors.front().begin == 0, "what is encoded is of a tensor");
  const auto behind = std::ranges::upper_bound(tensors, first, {}, &WireTensor::begin);
  for (std::size_t next = static_cast<std::size_t>(behind - tensors.begin()); count > 0; ++next) {
    const WireTensor& tensor = tensors[next - 1];
    const std::size_t part = next < tensors.size() ? std::min(count, tensors[next].begin - first) : count;
    cpu::encode(format, message, values, part, first - tensor.begin, mixed(tensor.seed + draw));
    message += roda_wire_bytes(format, part);
    values += part;
    first += part;
    count -= part;
  }
}

}  // namespace roda::execute
