// How long a training step takes on more GPUs than anybody here owns.
#pragma once

#include "tools/sim/options.h"

namespace roda::simtool {

// Prints assumptions and a line for each number of GPUs of the model on the cluster's file; where none is named on
// hosts of 8 GPUs, each with a card of 200 Gbit/s, on one switch. Returns the exit code.
int train(const CommandLine& options);

}  // namespace roda::simtool
