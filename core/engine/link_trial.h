// One link of a job, measured between two of its ranks while it starts.
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/transport.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/bootstrap/store.h"
#include "core/engine/links.h"

namespace roda::engine {

struct LinkTrial {
  std::string name;  // unique in the store
  std::array<std::int32_t, 2> ranks{};
  const roda_transport* transport = nullptr;
  std::uint64_t generation = 0;
  bool spins = true;  // every rank has a core
};

// Whether a trial over the transport ends in bounded time, whatever becomes of the peer.
bool can_try(const roda_transport& transport);

// Collective over the two ranks, of which the caller is one; the first leads. Messages of 4 bytes for 3 ms, then of 64
// KiB to 4 MiB until one takes 3 ms, through the same schedules and executor that collectives use. The quickest counts:
// what disturbs a measurement makes it longer. Of each size the first transfer is left out, because it may go on credit
// (a shaper's, a buffer's), and two must agree, or the leader has an error: the machine is too busy to be measured.
// Half of an exchange is the latency, a quarter the overhead of each end. Blocks, at most to the deadline; an error
// leaves *link alone. Only the leader's figures are to be used.
Status try_link(const LinkTrial& trial, std::int32_t rank, const roda_host* host, Store& store,
                Store::Clock::time_point deadline, Link* link);

// What one core sums up and copies, of a few hundred KiB: in its caches, as pieces of a collective are. About 1 ms.
void try_processor(Links* links);

}  // namespace roda::engine
