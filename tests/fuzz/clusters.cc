// A cluster's file of roda-sim: what is accepted can be simulated.
#include "tools/sim/model/cluster.h"

#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"name": "c", "about": "a", "levels": [{"name": "host", "members": 8, "latency_us": 0.5, "overhead_us": 0.2,
              "GBps": 12, "total_GBps": 80, "ports": 2, "full_duplex": false}, {"name": "network", "GBps": 25}],
              "reduce_GBps": 10, "copy_GBps": 20, "placement": [1, 2]})",
      R"({"name": "c", "levels": [{"name": "switch", "GBps": 1}]})"};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  sim::Cluster cluster;
  const auto wrong = sim::read_cluster(std::string(fuzz::Input(data, size).rest()), &cluster);
  fuzz::require(!wrong || !wrong->empty(), "an error says what is wrong");
  if (wrong) return 0;
  const std::int32_t ranks = 1 + static_cast<std::int32_t>(size % 60);
  if (sim::why_no_room(cluster, ranks)) return 0;
  const Topology topology = sim::lay_out(cluster, ranks);
  const sim::Routes routes(cluster, topology);
  std::vector<sim::Link> links;
  for (std::int32_t to = 1; to < ranks; ++to) {
    links.clear();
    routes.route(0, to, &links);
    for (const sim::Link& link : links) fuzz::require(routes.capacity(link) > 0, "links move something");
  }
  return 0;
}
