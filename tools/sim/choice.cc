#include "tools/sim/choice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "algorithms/select/table.h"
#include "bindings/c/roda.h"

namespace roda::simtool {
namespace {

using nlohmann::json;

std::string cpus_text(std::size_t count) { return count == 1 ? "0" : "0-" + std::to_string(count - 1); }

// The ranks' hosts as a topology file: each has as many cores as ranks, which is how many the engine lays out on it,
// and where the ranks have GPUs these, and the cards by which the host hangs on the level above.
std::string topology_of(const Topology& laid, const sim::Cluster& cluster) {
  std::size_t most = 0;
  for (const topology::Host& host : laid.hosts) most = std::max(most, host.ranks.size());
  json machine = {{"cpus", cpus_text(most)}};
  for (std::size_t core = 0; core < most; ++core) machine["cores"].push_back(std::to_string(core));
  for (std::size_t gpu = 0; cluster.gpus && gpu < most; ++gpu) {
    machine["gpus"].push_back({{"model", "GPU"}, {"pci", json::object()}});
  }
  const std::int32_t cards = cluster.gpus && cluster.levels.size() > 1 ? cluster.levels[1].ports : 0;
  const json port = {{"number", 1}, {"link_layer", "InfiniBand"}, {"is_active", true}};
  for (std::int32_t card = 0; card < cards; ++card) {
    machine["rdma_devices"].push_back(
        {{"name", "card" + std::to_string(card)}, {"ports", {port}}, {"pci", json::object()}});
  }
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

json ask(const std::string& memory, const std::string& topology, schedule::Collective collective, std::int32_t ranks,
         double bytes) {
  const int file = make_file();
  const bool is_written = write(file, topology.data(), topology.size()) == static_cast<ssize_t>(topology.size());
  if (!is_written) throw Failure("the engine can't be asked: no memory for the description of the hosts");
  roda_error error{};
  error.struct_size = sizeof error;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const std::unique_ptr<char, void (*)(char*)> text(
      roda_explain_memory(memory.c_str(), path.c_str(), static_cast<std::int32_t>(collective),
                          static_cast<std::uint64_t>(bytes), ranks, 2, &error),
      roda_free_text);
  close(file);
  if (text == nullptr) throw Failure(std::string("the engine can't be asked: ") + error.message);
  return json::parse(text.get());
}

plan::Plan composition(const std::string& name, schedule::Collective collective, const plan::Grid& grid) {
  if (name == "hierarchical") return plan::hierarchical(collective, grid, {});
  if (name == "two_step") return plan::reduce_along_each_axis(name, grid, {});
  throw Failure("the engine would run levels/" + name + ", which is not simulated; unset HOROVOD_SELECT");
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
                    sim::Options how) {
  if (auto wrong = sim::why_no_room(cluster, ranks)) throw Failure(*wrong);
  sim::Cluster hosts = cluster;
  if (cluster.levels.size() == 1) hosts.levels = {{topology::kHost, 1}, {"network"}};
  const Topology laid = sim::lay_out(hosts, ranks);
  const json told = ask(cluster.gpus ? "cuda" : "host", topology_of(laid, cluster), collective, ranks, bytes);
  if (!told.contains("runs")) throw Failure("the engine has nothing that could run this; see roda-info --plugins");
  const std::string name = told["runs"]["algorithm"];
  const bool is_composed = told["runs"]["transport"] == select::kLevels;
  const std::string text = text_of(told["stages"], is_composed);
  sim::Scenario scenario;
  scenario.cluster = cluster;
  scenario.bytes = bytes;
  scenario.grid =
      is_composed ? plan::nested_grid({{topology::kHost, laid.levels.front().units}}) : plan::flat_grid(ranks);
  scenario.plan = is_composed ? composition(name, collective, scenario.grid)
                              : plan::Plan{name, collective, {{collective, name, 0}}};
  for (std::size_t i = 0; i < scenario.plan.stages.size(); ++i) {
    scenario.plan.stages[i].algorithm = told["stages"].at(i)["algorithm"];
    if (cluster.gpus || scenario.plan.stages[i].algorithm != schedule::kNative) continue;
    throw Failure("the engine would run " + text + ": what a library's own collective does is not known here");
  }
  return simulate(scenario, "engine: " + text, how);
}

}  // namespace roda::simtool
