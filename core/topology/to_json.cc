#include <nlohmann/json.hpp>

#include "core/topology/json.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

using nlohmann::json;

// Numbers and texts that are unknown are left out.
template <typename T>
void set(json* object, const char* key, const T& value) {
  if (value != T()) (*object)[key] = value;
}

json lists(const std::vector<CpuSet>& sets) {
  json out = json::array();
  for (const CpuSet& set : sets) out.push_back(print_cpus(set));
  return out;
}

template <typename T>
void set_list(json* object, const char* key, const std::vector<T>& values, json (*one)(const T&)) {
  if (values.empty()) return;
  json& list = (*object)[key] = json::array();
  for (const T& value : values) list.push_back(one(value));
}

json to(const PciPlace& pci) {
  json out = json::object();
  set(&out, "address", pci.address);
  set(&out, "bridges", pci.bridges);
  if (pci.numa_node >= 0) out["numa_node"] = pci.numa_node;
  return out;
}

json to(const Package& package) { return {{"cpus", print_cpus(package.cpus)}, {"model", package.model}}; }

json to(const NumaNode& node) {
  json out{{"number", node.number}, {"cpus", print_cpus(node.cpus)}};
  set(&out, "memory_gib", node.memory_gib);
  set(&out, "distances", node.distances);
  return out;
}

json to(const CacheLevel& cache) {
  return {{"level", cache.level}, {"kib", cache.kib}, {"shared_by", lists(cache.shared_by)}};
}

json to(const Nic& nic) {
  json out{{"name", nic.name}, {"is_up", nic.is_up}, {"is_physical", nic.is_physical}, {"pci", to(nic.pci)}};
  set(&out, "speed_mbit", nic.speed_mbit);
  return out;
}

json to(const RdmaPort& port) {
  json out{{"number", port.number}, {"link_layer", port.link_layer}, {"is_active", port.is_active}};
  set(&out, "rate_mbit", port.rate_mbit);
  return out;
}

json to(const RdmaDevice& device) {
  json out{{"name", device.name}, {"pci", to(device.pci)}};
  set_list(&out, "ports", device.ports, to);
  return out;
}

json to(const Gpu& gpu) {
  json out{{"model", gpu.model}, {"pci", to(gpu.pci)}};
  set(&out, "memory_gib", gpu.memory_gib);
  set(&out, "compute_capability", gpu.compute_capability);
  set(&out, "nvlink_version", gpu.nvlink_version);
  set(&out, "switch_links", gpu.switch_links);
  for (const auto& [peer, links] : gpu.peer_links) out["peer_links"][std::to_string(peer)] = links;
  if (!gpu.peers.empty()) out["peers"] = print_cpus(gpu.peers);
  return out;
}

json to(const Machine& machine) {
  json out{{"cpus", print_cpus(machine.cpus)}, {"cores", lists(machine.cores)}};
  set(&out, "model", machine.model);
  set(&out, "sources", machine.sources);
  set_list(&out, "packages", machine.packages, to);
  set_list(&out, "numa_nodes", machine.numa_nodes, to);
  set_list(&out, "caches", machine.caches, to);
  set_list(&out, "nics", machine.nics, to);
  set_list(&out, "rdma_devices", machine.rdma_devices, to);
  set_list(&out, "gpus", machine.gpus, to);
  set(&out, "absent", machine.absent);
  return out;
}

json to(const Topology& topology) {
  json out{{"roda_topology", kSchema}, {"machines", json::object()}};
  for (const NamedMachine& named : topology.machines) out["machines"][named.name] = to(named.machine);
  for (const Host& host : topology.hosts) {
    json entry{{"name", host.name},
               {"machine", topology.machines[static_cast<std::size_t>(host.machine)].name},
               {"ranks", print_cpus(host.ranks)}};
    set(&entry, "place", host.place);
    out["hosts"].push_back(std::move(entry));
  }
  for (const Binding& binding : topology.bindings) {
    json entry{{"cpus", print_cpus(binding.cpus)}};
    set(&entry, "cpu_limit", binding.cpu_limit);
    out["bindings"].push_back(std::move(entry));
  }
  return out;
}

// Names may hold bytes that are no UTF-8; they are replaced.
std::string dump(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return roda::format("{:016x}", hash);
}

}  // namespace

std::string to_json(const Topology& topology, int indent) { return dump(to(topology), indent); }
std::string to_json(const Machine& machine, int indent) { return dump(to(machine), indent); }

std::string hash(const Machine& machine) {
  json value = to(machine);
  value.erase("sources");
  return fnv1a(dump(value, -1));
}

std::string hash(const Topology& topology) {
  Topology bare = topology;
  for (NamedMachine& named : bare.machines) named.machine.sources.clear();
  return fnv1a(to_json(bare, -1));
}

}  // namespace roda::topology
