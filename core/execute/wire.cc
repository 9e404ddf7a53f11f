#include "core/execute/wire.h"

#include <roda/abi/types.h>

#include <algorithm>

#include "algorithms/schedule/format.h"
#include "plugins/base/invariant.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

std::uint64_t mixed(std::uint64_t seed) {
  seed = (seed ^ (seed >> 31)) * 0xbf58476d1ce4e5b9u;
  return seed ^ (seed >> 29);
}

// What is no number leaves nothing behind: the next step begins anew.
void encode_with(float* residual, std::int32_t format, char* message, const float* values, std::size_t count,
                 std::size_t first, std::uint64_t seed) {
  constexpr std::size_t kPart = 8 * schedule::kFormatGrain;
  float sent[kPart];
  for (std::size_t done = 0; done < count; done += kPart) {
    const std::size_t part = std::min(kPart, count - done);
    float* const rest = residual + done;
    for (std::size_t i = 0; i < part; ++i) rest[i] += values[done + i];
    cpu::encode(format, message, rest, part, first + done, seed);
    cpu::decode(format, sent, nullptr, message, part);
    for (std::size_t i = 0; i < part; ++i) {
      const float lost = rest[i] - sent[i];
      rest[i] = lost - lost == 0 ? lost : 0;
    }
    message += roda_wire_bytes(format, part);
  }
}

}  // namespace

void encode(std::int32_t format, char* message, const float* values, std::size_t count, std::size_t first,
            std::span<const WireTensor> tensors, std::uint64_t draw, bool is_lossy) {
  RODA_INVARIANT(!tensors.empty() && tensors.front().begin == 0, "what is encoded is of a tensor");
  const auto behind = std::ranges::upper_bound(tensors, first, {}, &WireTensor::begin);
  for (std::size_t next = static_cast<std::size_t>(behind - tensors.begin()); count > 0; ++next) {
    const WireTensor& tensor = tensors[next - 1];
    const std::size_t part = next < tensors.size() ? std::min(count, tensors[next].begin - first) : count;
    const std::size_t begin = first - tensor.begin;
    const std::uint64_t seed = mixed(tensor.seed + draw);
    if (is_lossy && tensor.residual != nullptr) {
      encode_with(tensor.residual + begin, format, message, values, part, begin, seed);
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
