// Algorithms from files (RODA_SCHEDULES) and from plugins, and the rules that plugins add to the selection.
#pragma once

#include <set>
#include <string>

#include "algorithms/select/table.h"
#include "core/knobs/knobs.h"
#include "plugins/base/status.h"
#include "plugins/loader/loader.h"

namespace roda::engine {

// Reads and proves them, and sets them for schedule::find_algorithm. What is wrong is an error that names the file or
// plugin and, where the verifier objects, rank, lane and step. A plugin's algorithm is proved for the size that the
// settings give (or else a few small ones), and for others when they are first asked for.
Status load_user_algorithms(const Knobs& knobs, const plugins::Loader& loader);

// Puts the rules of the plugins before those of the table, and names the collectives that they speak of. The algorithms
// have been loaded.
Status add_plugin_rules(const plugins::Loader& loader, select::Table* table, std::set<schedule::Collective>* ruled);

// One line for each, to be compared between ranks: "algorithm allreduce/two_ways=3f2a...\n".
std::string user_algorithms_note();

}  // namespace roda::engine
