// A topology's file: what is read writes and reads back the same, and is safe to print, number and compare.
#include "core/topology/json.h"
#include "core/topology/lay_out.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"roda_topology": 1, "machines": {"m": {"cpus": "0-3"}}, "hosts": [{"name": "a", "machine": "m", "ranks": "0-3"},
          {"name": "b", "place": "x", "machine": "m", "ranks": "4"}], "bindings": [{"cpus": "0-3", "cpu_limit": 2},
          {"cpus": "0"}, {"cpus": "1"}, {"cpus": "2"}, {"cpus": "3"}]})",
      R"({"roda_topology": 1, "machines": {"m": {"cpus": "0-3", "model": "x", "sources": ["a"], "cores": ["0,2", "1,3"],
          "packages": [{"cpus": "0-3", "model": "y"}], "numa_nodes": [{"number": 0, "cpus": "0-3", "memory_gib": 4,
          "distances": [10]}], "caches": [{"level": 3, "kib": 1024, "shared_by": ["0-1", "2-3"]}], "nics": [{"name": "n",
          "speed_mbit": 1000, "is_up": true, "is_physical": true}], "rdma_devices": [{"name": "r", "ports": [{"number": 1,
          "link_layer": "Ethernet", "rate_mbit": 100000, "is_active": true}]}], "gpus": [{"model": "g", "memory_gib": 8,
          "peers": "1", "pci": {"address": "0000:01:00.0", "bridges": ["pci0000:00"], "numa_node": 0}}, {"model": "g",
          "peer_links": {"0": 4}, "switch_links": 0}], "absent": {"nvml": "not found"}}}})",
      R"({"topology": {"roda_topology": 1, "machines": {}}})",
      R"({"roda_topology": 2})",
  };
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  const std::string_view text = fuzz::Input(data, size).rest();
  Topology read, again;
  const Status status = topology::from_json(text, &read);
  fuzz::require(status.ok() || !status.message().empty(), "an error says what is wrong");
  if (!status.ok()) return 0;
  const std::string written = topology::to_json(read);
  fuzz::require(topology::from_json(written, &again).ok(), "what is written is read");
  fuzz::require(topology::to_json(again) == written && topology::hash(read) == topology::hash(again),
                "a topology survives the trip");
  static_cast<void>(topology::print(read));
  for (const std::string levels : {"cache,host", "numa,package,host", "host,rack=2", "auto"}) {
    Topology levelled = read;
    static_cast<void>(topology::find_levels(levels, &levelled));
  }
  for (const topology::NamedMachine& machine : read.machines) {
    const topology::Machine& first = read.machines.front().machine;
    static_cast<void>(topology::difference(first, machine.machine, "here", "there"));
    static_cast<void>(topology::contradiction(first, machine.machine, "here", "there"));
  }
  return 0;
}
