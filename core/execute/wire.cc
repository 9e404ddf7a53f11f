#include "core/execute/wire.h"

#include <roda/abi/types.h>

#include <algorithm>
#include <cmath>

#include "algorithms/schedule/format.h"
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

float largest_of(const float* values, std::size_t count) {
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::abs(values[i]) > most ? std::abs(values[i]) : most;
  return most;
}

// What was lost before is added to a block as far as roundings of its present values could lose it: after a step of
// values that were larger by far, its losses would be wrong for this one, and are dropped. A block of zeros goes as
// such and keeps what it has. What is no number leaves nothing behind: the next step begins anew.
void encode_with(float* residual, std::int32_t lost_of, std::int32_t format, char* message, const float* values,
                 std::size_t count, std::size_t first, std::uint64_t seed) {
  constexpr std::size_t kPart = 8 * schedule::kFormatGrain;
  const roda_wire_format_entry& entry = roda_wire_formats[format];
  const auto share = static_cast<float>(kMostFedBack * lost_of * entry.error);
  float wanted[kPart], sent[kPart];
  for (std::size_t done = 0; done < count; done += kPart) {
    const std::size_t part = std::min(kPart, count - done);
    float* const rest = residual + done;
    const float* const now = values + done;
    const auto each_block = [&](const auto& work) {
      for (std::size_t begin = 0; begin < part; begin += entry.block) {
        work(begin, std::min<std::size_t>(begin + entry.block, part));
      }
    };
    each_block([&](std::size_t begin, std::size_t end) {
      const float most = share * largest_of(now + begin, end - begin);
      for (std::size_t i = begin; i < end; ++i) wanted[i] = now[i] + std::clamp(rest[i], -most, most);
    });
    cpu::encode(format, message, wanted, part, first + done, seed);
    cpu::decode(format, sent, nullptr, message, part);
    each_block([&](std::size_t begin, std::size_t end) {
      if (largest_of(now + begin, end - begin) == 0) return;
      for (std::size_t i = begin; i < end; ++i) {
        const float lost = wanted[i] - sent[i];
        rest[i] = lost - lost == 0 ? lost : 0;
      }
    });
    message += roda_wire_bytes(format, part);
  }
}

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
      encode_with(tensor.residual + begin, lost_of, format, message, values, part, begin, seed);
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
