// The figures of docs/scale.md, by one command.
#pragma once

#include "tools/sim/candidates.h"
#include "tools/sim/model/control.h"

namespace roda::simtool {

// How a control plane's messages cost on that cluster: hosts are the units below its last level.
sim::ControlOptions control_options(const sim::Cluster& cluster, std::int32_t ranks);

// Writes the plots and their points (JSON lines) into the folder, on the cluster that was given. Returns the exit code.
int write_curves(const CommandLine& options);

}  // namespace roda::simtool
