#include "tools/sim/choice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "algorithms/select/table.h"
#include "bindings/c/roda.h"
#include "tools/sim/explained.h"

namespace roda::simtool {
namespace {

using nlohmann::json;

std::string cpus_text(std::size_t count) { return count == 1 ? "0" : "0-" + std::to_string(count - 1); }

// The ranks' hosts as a topology file: each has as many cores as ranks, which is how many the engine lays out on it.
std::string topology_of(const Topology& laid, const sim::Cluster& cluster) {
  std::size_t most = 0;
  for (const topology::Host& host : laid.hosts) most = std::max(most, host.ranks.size());
  json machine = {{"cpus", cpus_text(most)}};
  for (std::size_t core = 0; core < most; ++core) machine["cores"].push_back(std::to_string(core));
  json file = {{"roda_topology", 1}, {"machines", {{"host", machine}}}};
  for (std::size_t i = 0; !cluster.placement.empty() && i < laid.hosts.size(); ++i) {
    const std::string ranks = topology::print_cpus(laid.hosts[i].ranks);
    file["hosts"].push_back({{"name", "host" + std::to_string(i)}, {"machine", "host"}, {"ranks", ranks}});
  }
  return file.dump();
}

// Without a name.
int make_file() {
  int file = memfd_create("topology", MFD_CLOEXEC);
  if (file >= 0) return file;
  if (std::FILE* unnamed = std::tmpfile(); unnamed != nullptr) {  // the kernel, or its filter, has no memfd
    file = dup(fileno(unnamed));
    std::fclose(unnamed);
  }
  return file;
}

json ask(const std::string& topology, schedule::Collective collective, std::int32_t ranks, double bytes) {
  const int file = make_file();
  const bool is_written = write(file, topology.data(), topology.size()) == static_cast<ssize_t>(topology.size());
  if (!is_written) throw Failure("the engine can't be asked: no memory for the description of the hosts");
  roda_error error{};
  error.struct_size = sizeof error;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const std::unique_ptr<char, void (*)(char*)> text(
      roda_explain_memory("host", path.c_str(), static_cast<std::int32_t>(collective),
                          static_cast<std::uint64_t>(bytes), ranks, 2, &error),
      roda_free_text);
  close(file);
  if (text == nullptr) throw Failure(std::string("the engine can't be asked: ") + error.message);
  return json::parse(text.get());
}

// As words: "shm/direct on each host, tcp/ring across hosts".
std::string text_of(const json& stages, bool is_composed) {
  std::string text;
  for (const json& stage : stages) {
    text += (text.empty() ? "" : ", ") + stage["transport"].get<std::string>() + "/" +
            stage["algorithm"].get<std::string>() + (is_composed ? " " + stage["where"].get<std::string>() : "");
  }
  return text;
}

}  // namespace

Row simulate_choice(const sim::Cluster& cluster, schedule::Collective collective, std::int32_t ranks, double bytes,
                    sim::SimulationOptions how) {
  if (auto wrong = sim::why_no_room(cluster, ranks)) throw Failure(*wrong);
  sim::Cluster hosts = cluster;
  if (cluster.levels.size() == 1) hosts.levels = {{topology::kHost, 1}, {"network"}};
  const Topology laid = sim::lay_out(hosts, ranks);
  const json told = ask(topology_of(laid, cluster), collective, ranks, bytes);
  if (!told.contains("runs")) throw Failure("the engine has nothing that could run this; see roda-info --plugins");
  const std::string text = text_of(told["stages"], told["runs"]["transport"] == select::kLevels);
  std::optional<sim::Scenario> scenario = scenario_of(told, told["runs"], told["stages"]);
  if (!scenario) {
    throw Failure("the engine would run " + text + ": what a library's own collective does is not known here");
  }
  scenario->cluster = cluster;
  return simulate(*scenario, "engine: " + text, how);
}

}  // namespace roda::simtool
