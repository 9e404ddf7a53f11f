#include "algorithms/topology/link.h"

#include <roda/abi/types.h>

#include <array>
#include <cstdio>

namespace roda::topology {
namespace {

// Core seconds for each byte of float32 that a host sends, whatever it travels as; of a format besides.
constexpr double kMove = 0.34e-9;
constexpr double kCode = 0.1e-9;

std::string gbits(double bytes_per_second) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", bytes_per_second * 8e-9);
  return text.data();
}

// The bytes of a message in the format, as a share of those in float32.
double share(std::int32_t wire_format) {
  constexpr std::size_t kElements = 1 << 12;
  return static_cast<double>(roda_wire_bytes(wire_format, kElements)) / (kElements * sizeof(float));
}

}  // namespace

double break_even(std::int32_t wire_format, int cores) {
  return (1 - kLeastGain - share(wire_format)) * cores / (kCode + kLeastGain * kMove);
}

std::string no_gain(const Link& link, std::int32_t wire_format, std::size_t bytes) {
  if (bytes < kLeastFormatted) return "below 64 KiB latency takes the time, and no format saves any";
  const double most = break_even(wire_format, link.cores);
  if (link.bytes_per_second > 0 && link.bytes_per_second < most) return "";
  return speed(link) + ", and " + roda_wire_formats[wire_format].name + " wins below " + gbits(most);
}

std::string speed(const Link& link) {
  if (link.bytes_per_second <= 0) return "the link's speed is not known (" + link.source + ")";
  return "the link makes " + gbits(link.bytes_per_second) + " Gbit/s (" + link.source + ")";
}

std::string break_evens(int cores) {
  std::string text;
  for (const int format : {RODA_WIRE_BF16, RODA_WIRE_INT8, RODA_WIRE_INT4}) {
    text += (text.empty() ? "" : ", ") + std::string(roda_wire_formats[format].name) + " below " +
            gbits(break_even(format, cores)) + (text.empty() ? " Gbit/s" : "");
  }
  return text;
}

}  // namespace roda::topology
