// What can be set, read once per context.
#pragma once

#include <cstddef>
#include <roda/sdk/settings.hpp>
#include <string>

#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

struct Settings {
  std::string interfaces, gloo_interfaces, congestion;
  std::size_t lanes, eager_bytes, window_bytes, chunk_bytes;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::interfaces, "RODA_TCP_IFACE", "", "",
     "Interfaces to listen on, separated by commas, of which the first usable one is taken; empty: HOROVOD_GLOO_IFACE, "
     "or chosen."},
    {&Settings::gloo_interfaces, "HOROVOD_GLOO_IFACE", "", "", "The same where RODA_TCP_IFACE is empty."},
    {&Settings::congestion, "RODA_TCP_CONGESTION", "", "",
     "Congestion control of this end's connections, by the kernel's name; empty: the system's default."},
    {&Settings::lanes, "RODA_TCP_LANES", "connections", "1", 1, kMostLanes,
     "Connections between two ranks; the smaller number of the two counts."},
    {&Settings::eager_bytes, "RODA_TEST_TCP_EAGER_BYTES", "bytes", "65536", 0, kMostEager,
     "Longer messages wait for their receive."},
    {&Settings::window_bytes, "RODA_TEST_TCP_WINDOW_BYTES", "bytes", "1048576", 0, 1 << 30,
     "Short messages from one rank that may wait for their receives."},
    {&Settings::chunk_bytes, "RODA_TEST_TCP_CHUNK_BYTES", "bytes", "131072", 4096, kMostChunk,
     "Pieces that a long message is sent in."},
};

}  // namespace roda::tcp_transport
