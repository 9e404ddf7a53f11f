// What the library says that it would run (roda_explain_memory), played by the simulator.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "algorithms/schedule/schedule.h"
#include "tools/sim/model/simulate.h"

namespace roda::simtool {

// The plan, and the grid that it is laid over. `told`: the answer, of ranks on hosts, or on one; `option` and `stages`:
// of what runs, or of a candidate. nullopt: a library's own collective is part of it, which is not known here.
std::optional<sim::Scenario> scenario_of(const nlohmann::json& told, const nlohmann::json& option,
                                         const nlohmann::json& stages);

// Adds `predicted` to the candidates that the model knows, of tensors in host memory: over links of an ordinary
// machine, with the network's bandwidth as the hosts' interfaces tell it. `links` says where these figures are from.
void predict(nlohmann::json* told);

}  // namespace roda::simtool
