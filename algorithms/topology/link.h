// The network between hosts as far as plans go by it, and what wire formats win there by a model.
//
// The model: what a host sends takes its bytes over the link, and its cores' work: to move each byte that travels, in
// any format the same for the data behind it, and to encode and decode. Fitted to docs/notes/between-hosts.md.
//
// Values, equal on all ranks; pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace roda::topology {

struct Link {
  double bytes_per_second = 0;  // that every host sends and receives at a time; 0: not known
  int cores = 1;                // that work for it on each host: no more than its ranks
  std::string source;           // "measured", or why it is not known
};

// A format is chosen unasked only where it takes so much less time.
inline constexpr double kLeastGain = 0.1;

// Below so many bytes per second messages in the format take kLeastGain less time than float32.
double break_even(std::int32_t wire_format, int cores);

// Below so many bytes of a collective latency is what takes time, and nothing is gained.
inline constexpr std::size_t kLeastFormatted = 64 << 10;

// Why the format is not worth it over the link, as the reason of a plan that passes it over; empty: it is.
std::string no_gain(const Link& link, std::int32_t wire_format, std::size_t bytes);

// "the link makes 9.4 Gbit/s (measured)", or why that is not known.
std::string speed(const Link& link);

// "bf16 below 24 Gbit/s, int8 below 45, int4 below 49"
std::string break_evens(int cores);

}  // namespace roda::topology
