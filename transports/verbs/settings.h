// The knobs of the transport, read once for each context.
#pragma once

#include <roda/abi/host.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace roda::verbs {

inline constexpr int kMaxRails = 4;

struct Settings {
  std::string library = "libibverbs.so.1";  // RODA_VERBS_LIBRARY: what to open, for tests
  std::string devices;                      // RODA_VERBS_DEVICES: "mlx5_0,mlx5_1:2"; empty: chosen
  int gid_index = -1;                       // RODA_VERBS_GID_INDEX: -1: chosen
  int rails = kMaxRails;                    // RODA_VERBS_RAILS: most devices that one connection is striped over
  bool rotate = true;                       // RODA_VERBS_ROTATE: ranks of one host begin with different devices
  std::size_t eager_bytes = 4096;           // RODA_VERBS_EAGER_BYTES: longer messages are written in place
  std::uint32_t credits = 32;               // RODA_VERBS_CREDITS: short messages on their way to one peer
  std::size_t stripe_bytes = 64 << 10;      // RODA_VERBS_STRIPE_BYTES: least that is worth a rail of its own
  std::uint32_t timeout = 17;               // RODA_VERBS_TIMEOUT: 4.096 us * 2^timeout until a packet is sent again
  std::uint32_t retries = 6;                // RODA_VERBS_RETRIES: how often; to some devices 7 means for ever
  std::uint32_t traffic_class = 0;          // RODA_VERBS_TRAFFIC_CLASS: of RoCE packets
  std::uint32_t probe_ms = 1000;            // RODA_VERBS_PROBE_MS: a silent peer that is waited for is asked this often
};

// Values out of range are cut to it; what is no number is an error (sdk::Failure).
Settings read_settings(const roda_host* host);

}  // namespace roda::verbs
