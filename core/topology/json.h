// A topology as JSON: what files hold (docs/topology.md), and what ranks send one another.
//
// Fields that are not known are ignored, so that an older version reads what a newer wrote as long as the number of the
// schema is the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/topology/topology.h"
#include "plugins/base/status.h"

namespace roda::topology {

constexpr std::size_t kMostFileBytes = 16 << 20;

// `indent` < 0: one line.
std::string to_json(const Topology& topology, int indent = 2);
std::string to_json(const Machine& machine, int indent = -1);

// Refuses text that is no JSON, another schema, and a field that is missing or wrong, by its path ("/hosts/0/ranks").
// The object may also be the value of "topology" in a larger one (what `roda-info --json` prints).
Status from_json(std::string_view text, Topology* topology);
Status from_json(std::string_view text, Machine* machine);

// Names the file in the error.
Status load_file(const std::string& path, Topology* topology);
// Writes beside the file and renames, so that a reader never sees half of it.
Status write_file(const std::string& path, const Topology& topology);

// Equal for equal machines; sources do not count. 16 hexadecimal digits.
std::string hash(const Machine& machine);
std::string hash(const Topology& topology);

// What differs, by path, at most three places: "/numa_nodes/0/memory_gib is 24 here and 32 there". Empty: nothing.
std::string difference(const Machine& a, const Machine& b, const std::string& here, const std::string& there);
// What can't both be true of one machine: its CPUs, and which of them make up cores, packages, NUMA nodes and caches,
// as far as both descriptions tell. Devices, names and memory may come and go, or be hidden from one process.
std::string contradiction(const Machine& a, const Machine& b, const std::string& here, const std::string& there);

// --- for people ---

// A tree: hosts with their ranks, then each machine. Hosts of one name are told apart by their place.
std::string print(const Topology& topology);

// "rank 1 of 4, local 1 of 2, cross 0 of 2, homogeneous", a line.
std::string print_rank(const Topology& topology, int rank);

// "105 MiB", "48 KiB".
std::string size_text(std::int64_t kib);

}  // namespace roda::topology
