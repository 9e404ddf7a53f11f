// Where a job's ranks lie, and its settings, which follow from the seed's number.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include "algorithms/topology/topology.h"
#include "core/knobs/knobs.h"
#include "tests/seeds/faults.h"
#include "tests/seeds/job.h"
#include "tests/seeds/world.h"

namespace roda::seeds {

inline Knobs knobs_of(std::uint64_t seed, int hosts) {
  Draw draw(seed ^ 0x5e771465);
  const auto one_of = [&](auto... texts) {
    const std::array<const char*, sizeof...(texts)> all{texts...};
    return std::string(all[draw_below(draw, all.size())]);
  };
  const std::map<std::string, std::string> settings = {
      {"HOROVOD_CPU_OPERATIONS", hosts > 1 ? "loop+tcp" : "loop"},
      {"HOROVOD_CACHE_CAPACITY", one_of("0", "1", "2", "1024", "1024")},
      {"HOROVOD_FUSION_THRESHOLD", one_of("0", "64", "4096", "134217728")},
      {"HOROVOD_CYCLE_TIME", one_of("", "", "0.3", "2")},
      {"HOROVOD_OUTSTANDING_BUCKETS", one_of("1", "2", "2", "4")},
      {"HOROVOD_DISABLE_GROUP_FUSION", one_of("0", "0", "1")},
      {"HOROVOD_HIERARCHICAL_ALLREDUCE", one_of("0", "1")},
      {"RODA_TEST_CONTROL_FAN_OUT", one_of("", "1", "2")},
      {"HOROVOD_SELECT", one_of("", "", "allreduce = */ring", "allreduce = */rabenseifner", "allreduce = */twoshot",
                                "allreduce = */recursive_doubling; allgather = */bruck",
                                "allreduce = */ordered; reducescatter = */ordered", "allreduce = */double_binary_tree",
                                "alltoall = */pairwise; allgather = */ring; broadcast = */scatter_allgather")},
      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
      {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", std::to_string(kStallLimit.count())}};
  Status status;
  const auto get = [&](const char* name) -> const char* {
    const auto found = settings.find(name);
    return found == settings.end() ? nullptr : found->second.c_str();
  };
  const Knobs knobs = Knobs::from_environment(get, &status);
  if (!status.ok()) throw std::runtime_error(status.message());
  return knobs;
}

// The job, or what is left of it, and on how many hosts.
inline int draw_world(Draw& draw, const Play& what, Job* job) {
  const bool is_large = draw_one_in(draw, 10);
  const int ranks = 2 + static_cast<int>(draw_below(draw, is_large ? kMostRanks - 1 : 4));
  const int hosts = draw_one_in(draw, 2) ? 1 : 1 + static_cast<int>(draw_below(draw, is_large ? 8 : 3));
  *job = draw_job(draw, ranks, 5 + draw_below(draw, 40));
  const int kept = what.ranks != 0 ? std::min(what.ranks, ranks) : ranks;
  if (kept < ranks || !what.calls.empty()) *job = cut_job(*job, kept, what.calls);
  return std::min({hosts, job->ranks, what.hosts != 0 ? what.hosts : hosts});
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
