// What the user may set, read once per context.
#pragma once

#include <roda/abi/host.h>

#include <cstddef>
#include <string>

namespace roda::tcp_transport {

struct Settings {
  // RODA_TCP_IFACE, else HOROVOD_GLOO_IFACE: names separated by commas of which the first usable one is taken. Empty:
  // chosen, see docs/transports.md.
  std::string interfaces;
  std::string interfaces_setting = "RODA_TCP_IFACE";  // which of the two it was, for errors
  std::string congestion;               // RODA_TCP_CONGESTION: of the kernel's; empty: the system's default
  std::size_t lanes = 1;                // RODA_TCP_LANES: connections between two ranks; the smaller number counts
  std::size_t eager_bytes = 64 << 10;   // RODA_TCP_EAGER_BYTES: longer messages wait for their receive
  std::size_t window_bytes = 1 << 20;   // RODA_TCP_WINDOW_BYTES: of eager messages from one rank without a receive
  std::size_t chunk_bytes = 128 << 10;  // RODA_TCP_CHUNK_BYTES: pieces that a long message is sent in
};

// Throws sdk::Failure for a text that is no number.
Settings read_settings(const roda_host* host);

}  // namespace roda::tcp_transport
