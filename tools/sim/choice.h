// What the engine would run on a described cluster, played by the simulator.
#pragma once

#include "tools/sim/candidates.h"

namespace roda::simtool {

// In place of an algorithm's name.
inline constexpr const char* kEngine = "engine";

// The engine is asked (roda_explain_memory) what it would run for tensors in host memory, with the transports that are
// usable on this machine; the slices are the executor's, `how` says the rest.
// The cluster's first level are the hosts; where it is the only one each rank is a host. Failure: nothing can run it,
// or it is not known to the simulator.
Row simulate_choice(const sim::Cluster& cluster, schedule::Collective collective, std::int32_t ranks, double bytes,
                    sim::SimulationOptions how);

}  // namespace roda::simtool
