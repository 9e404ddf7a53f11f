// Faults and delays on command, read when a context is created: give each rank its own roda_host to make only one rank
// misbehave.
#pragma once

#include <cstdint>
#include <roda/sdk/settings.hpp>

namespace roda::loop {

struct Settings {
  std::uint32_t delay_us, again_every;
  int fail_after;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::delay_us, "RODA_TEST_LOOP_DELAY_US", "us", "0", 0, 1'000'000'000,
     "Messages become visible to the receiver this much later."},
    {&Settings::fail_after, "RODA_TEST_LOOP_FAIL_AFTER", "operations", "-1", -1, 1 << 30,
     "So many operations work, every later one of the context fails with RODA_ERR_PEER; -1: all work."},
    {&Settings::again_every, "RODA_TEST_LOOP_AGAIN_EVERY", "attempts", "0", 0, 1 << 30,
     "Every n-th attempt to send or receive is answered with RODA_AGAIN; 0: none."},
};

}  // namespace roda::loop
