// Where a job's ranks lie, and its settings, which follow from the seed's number.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "algorithms/topology/topology.h"
#include "core/knobs/knobs.h"
#include "tests/seeds/faults.h"

namespace roda::seeds {

inline Knobs knobs_of(std::uint64_t seed, int hosts) {
  const std::map<std::string, std::string> settings = {
      {"HOROVOD_CPU_OPERATIONS", hosts > 1 ? "loop+tcp" : "loop"},
      {"HOROVOD_CACHE_CAPACITY", std::array{"0", "2", "1024"}[seed % 3]},
      {"HOROVOD_FUSION_THRESHOLD", std::array{"0", "4096"}[seed / 3 % 2]},
      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
      {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", std::to_string(kStallLimit.count())}};
  Status status;
  const auto get = [&](const char* name) -> const char* {
    const auto found = settings.find(name);
    return found == settings.end() ? nullptr : found->second.c_str();
  };
  return Knobs::from_environment(get, &status);
}

inline Topology lay_out(int ranks, int hosts) {
  Topology topology;
  for (int host = 0; host < hosts; ++host) {
    topology.hosts.push_back({"host" + std::to_string(host), "", 0, {}});
    for (int rank = ranks * host / hosts; rank < ranks * (host + 1) / hosts; ++rank) {
      topology.hosts.back().ranks.push_back(rank);
    }
  }
  place_ranks(&topology);
  return topology;
}

}  // namespace roda::seeds
