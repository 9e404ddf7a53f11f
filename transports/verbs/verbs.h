// The transport over libibverbs: RC queue pairs of InfiniBand and RoCE devices. See docs/transports.md.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace roda::verbs {

// What can be set, read once for each context.
inline constexpr std::uint32_t kMaxRails = 4;  // devices that one connection is striped over
inline constexpr std::uint32_t kRetries = 6;   // of a packet; to some devices 7 means for ever

struct Settings {
  std::string library, devices;
  int gid_index;
  std::size_t eager_bytes, stripe_bytes;
  std::uint32_t credits, timeout, traffic_class, probe_ms;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::devices, "RODA_VERBS_DEVICES", "", "",
     "Devices to use, in order, as in mlx5_0,mlx5_1:2 (port 1 unless given); empty: chosen."},
    {&Settings::gid_index, "RODA_VERBS_GID_INDEX", "", "-1", -1, 255,
     "The address of each port to use, by its number in the port's table; -1: chosen."},
    {&Settings::traffic_class, "RODA_VERBS_TRAFFIC_CLASS", "", "0", 0, 255, "Traffic class of RoCE packets."},
    {&Settings::library, "RODA_TEST_VERBS_LIBRARY", "", "libibverbs.so.1", "The library to open."},
    {&Settings::eager_bytes, "RODA_TEST_VERBS_EAGER_BYTES", "bytes", "4096", 64, 1 << 20,
     "Longer messages are written in place."},
    {&Settings::credits, "RODA_TEST_VERBS_CREDITS", "messages", "32", 4, 1024,
     "Short messages on their way to one peer."},
    {&Settings::stripe_bytes, "RODA_TEST_VERBS_STRIPE_BYTES", "bytes", "65536", 1, 1 << 30,
     "The least that is worth a rail of its own."},
    {&Settings::timeout, "RODA_TEST_VERBS_TIMEOUT", "", "17", 1, 31,
     "A packet is sent again after 4.096 us * 2 to this power."},
    {&Settings::probe_ms, "RODA_TEST_VERBS_PROBE_MS", "ms", "1000", 10, 600'000,
     "A silent peer that is waited for is asked for a sign of life this often."},
};

}  // namespace roda::verbs

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_verbs_transport();
