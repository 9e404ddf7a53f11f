// The transport between ranks of one host: shared memory, and the kernel's copy between processes. See
// docs/transports.md.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace roda::shm {

// What tests can set, read once per context.
struct Settings {
  bool force_posix, cma;
  std::size_t eager_bytes;
  std::uint32_t ring_bytes, store_cost;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::force_posix, "RODA_TEST_SHM_FORCE_POSIX", "", "0", 0, 1, "1: POSIX shared memory, not memfd."},
    {&Settings::cma, "RODA_TEST_SHM_CMA", "", "1", 0, 1, "0: as where the kernel refuses cross-memory attach."},
    {&Settings::eager_bytes, "RODA_TEST_SHM_EAGER_BYTES", "bytes", "16384", 0, 1 << 20,
     "Longer messages wait for their receive."},
    {&Settings::ring_bytes, "RODA_TEST_SHM_RING_BYTES", "bytes", "262144", 4 << 10, 64 << 20,
     "Of the ring between each two ranks; a power of two."},
    {&Settings::store_cost, "RODA_TEST_SHM_STORE_COST", "percent", "0", 0, 100'000,
     "What plain copies cost where a peer has read, instead of measuring it."},
};

}  // namespace roda::shm

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_shm_transport();
