// The transport whose ranks are threads of one process: for tests, with no launcher, sockets or helper threads.
//
// Groups find each other by name and generation in a table of the process; the exchange is not used. Messages of up to
// kEagerBytes complete at once, longer ones when they are received, by one copy from the sender's memory.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <cstdint>

namespace roda::loop {

// Faults and delays on command, read when a context is created: give each rank its own roda_host to make only one rank
// misbehave.
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

// For programs that link the transport instead of loading it.
const roda_transport* roda_loop_transport();
