#include <algorithm>
#include <charconv>

#include "core/topology/json.h"
#include "core/topology/json_field.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

using nlohmann::json;

// A field that may be missing.
template <typename T>
void maybe(const Field& object, const char* key, T* out, T (*read)(const Field&)) {
  object.must_be_object();
  if (object.has(key)) *out = read(object[key]);
}
template <typename T>
void maybe(const Field& object, const char* key, std::vector<T>* out, T (*read)(const Field&)) {
  object.must_be_object();
  if (object.has(key)) *out = object[key].list(read);
}

std::string to_text(const Field& field) { return field.text(); }
int to_count(const Field& field) { return field.count(); }
bool to_truth(const Field& field) { return field.truth(); }
CpuSet to_set(const Field& field) { return field.numbers(); }
std::int64_t to_size(const Field& field) { return field.integer(0, std::int64_t{1} << 53); }

PciPlace to_pci(const Field& field) {
  PciPlace pci;
  maybe(field, "address", &pci.address, to_text);
  maybe(field, "bridges", &pci.bridges, to_text);
  maybe(field, "numa_node", &pci.numa_node, to_count);
  return pci;
}

Package to_package(const Field& field) {
  Package package{field["cpus"].numbers(), ""};
  maybe(field, "model", &package.model, to_text);
  return package;
}

NumaNode to_numa_node(const Field& field) {
  NumaNode node;
  node.number = field["number"].count();
  node.cpus = field["cpus"].numbers();
  maybe(field, "memory_gib", &node.memory_gib, to_size);
  maybe(field, "distances", &node.distances, to_count);
  return node;
}

CacheLevel to_cache(const Field& field) {
  return {static_cast<int>(field["level"].integer(1, 5)), to_size(field["kib"]), field["shared_by"].list(to_set)};
}

Nic to_nic(const Field& field) {
  Nic nic;
  nic.name = field["name"].text();
  maybe(field, "speed_mbit", &nic.speed_mbit, to_count);
  maybe(field, "is_up", &nic.is_up, to_truth);
  maybe(field, "is_physical", &nic.is_physical, to_truth);
  maybe(field, "pci", &nic.pci, to_pci);
  return nic;
}

RdmaPort to_port(const Field& field) {
  RdmaPort port;
  port.number = field["number"].count();
  maybe(field, "link_layer", &port.link_layer, to_text);
  maybe(field, "rate_mbit", &port.rate_mbit, to_count);
  maybe(field, "is_active", &port.is_active, to_truth);
  return port;
}

RdmaDevice to_rdma_device(const Field& field) {
  RdmaDevice device;
  device.name = field["name"].text();
  maybe(field, "ports", &device.ports, to_port);
  maybe(field, "pci", &device.pci, to_pci);
  return device;
}

std::map<int, int> to_peer_links(const Field& field) {
  std::map<int, int> links;
  field.for_each(true, [&](const std::string& key, const Field& entry) {
    int peer = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), peer);
    if (error != std::errc() || end != key.data() + key.size() || peer < 0)
      field.refuse("an object with numbers as keys");
    links[peer] = entry.count();
  });
  return links;
}

Gpu to_gpu(const Field& field) {
  Gpu gpu;
  gpu.model = field["model"].text();
  maybe(field, "pci", &gpu.pci, to_pci);
  maybe(field, "memory_gib", &gpu.memory_gib, to_size);
  maybe(field, "compute_capability", &gpu.compute_capability, to_text);
  maybe(field, "nvlink_version", &gpu.nvlink_version, to_count);
  maybe(field, "switch_links", &gpu.switch_links, to_count);
  maybe(field, "peer_links", &gpu.peer_links, to_peer_links);
  maybe(field, "peers", &gpu.peers, to_set);
  return gpu;
}

std::map<std::string, std::string> to_reasons(const Field& field) {
  std::map<std::string, std::string> reasons;
  field.for_each(true, [&](const std::string& key, const Field& entry) { reasons[key] = entry.text(); });
  return reasons;
}

// What one field alone can't tell.
void check(const Machine& machine, const Field& field) {
  const auto inside = [&](const char* list, std::size_t index, const CpuSet& cpus) {
    if (contains(machine.cpus, cpus)) return;
    field[list].refuse(roda::format("within /cpus: entry {} names CPUs outside it", index));
  };
  for (std::size_t i = 0; i < machine.cores.size(); ++i) inside("cores", i, machine.cores[i]);
  for (std::size_t i = 0; i < machine.packages.size(); ++i) inside("packages", i, machine.packages[i].cpus);
  for (std::size_t i = 0; i < machine.numa_nodes.size(); ++i) inside("numa_nodes", i, machine.numa_nodes[i].cpus);
  for (std::size_t i = 0; i < machine.caches.size(); ++i) {
    for (const CpuSet& group : machine.caches[i].shared_by) inside("caches", i, group);
  }
  const int gpus = static_cast<int>(machine.gpus.size());
  for (const Gpu& gpu : machine.gpus) {
    const int last_link = gpu.peer_links.empty() ? -1 : gpu.peer_links.rbegin()->first;
    const int last_peer = gpu.peers.empty() ? -1 : gpu.peers.back();
    if (std::max(last_link, last_peer) >= gpus) field["gpus"].refuse(roda::format("about GPUs 0 to {}", gpus - 1));
  }
}

Machine to_machine(const Field& field) {
  Machine machine;
  machine.cpus = field["cpus"].numbers();
  maybe(field, "model", &machine.model, to_text);
  maybe(field, "sources", &machine.sources, to_text);
  maybe(field, "cores", &machine.cores, to_set);
  maybe(field, "packages", &machine.packages, to_package);
  maybe(field, "numa_nodes", &machine.numa_nodes, to_numa_node);
  maybe(field, "caches", &machine.caches, to_cache);
  maybe(field, "nics", &machine.nics, to_nic);
  maybe(field, "rdma_devices", &machine.rdma_devices, to_rdma_device);
  maybe(field, "gpus", &machine.gpus, to_gpu);
  maybe(field, "absent", &machine.absent, to_reasons);
  check(machine, field);
  return machine;
}

Binding to_binding(const Field& field) {
  Binding binding{field["cpus"].numbers(), 0};
  if (field.has("cpu_limit")) binding.cpu_limit = field["cpu_limit"].amount();
  return binding;
}

Host to_host(const Field& field, const std::vector<NamedMachine>& machines) {
  Host host;
  host.name = field["name"].text();
  maybe(field, "place", &host.place, to_text);
  host.ranks = field["ranks"].numbers();
  const std::string name = field["machine"].text();
  const auto known = std::find_if(machines.begin(), machines.end(), [&](const auto& m) { return m.name == name; });
  if (known == machines.end()) field["machine"].refuse("the name of one of /machines");
  host.machine = static_cast<int>(known - machines.begin());
  return host;
}

// Every rank from 0 up, each on one host.
void check_ranks(const Topology& topology, const Field& field) {
  std::vector<int> seen;
  for (const Host& host : topology.hosts) seen.insert(seen.end(), host.ranks.begin(), host.ranks.end());
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != static_cast<int>(i)) {
      field["hosts"].refuse(roda::format("hosts that name each of {} ranks once; rank {} is not", seen.size(), i));
    }
  }
  if (!topology.bindings.empty() && topology.bindings.size() != seen.size()) {
    field["bindings"].refuse(roda::format("an array of {} bindings, one for each rank", seen.size()));
  }
}

Topology to_topology(const Field& field) {
  field["roda_topology"].integer(kSchema, kSchema);
  Topology topology;
  field["machines"].for_each(true, [&](const std::string& name, const Field& entry) {
    topology.machines.push_back({name, to_machine(entry)});
  });
  if (field.has("hosts")) {
    field["hosts"].for_each(false, [&](const std::string&, const Field& entry) {
      topology.hosts.push_back(to_host(entry, topology.machines));
    });
  }
  maybe(field, "bindings", &topology.bindings, to_binding);
  check_ranks(topology, field);
  place_ranks(&topology);
  return topology;
}

template <typename T>
Status read(std::string_view text, T (*convert)(const Field&), T* out) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return Status::invalid("it is no JSON");
  const bool is_wrapped = document.is_object() && !document.contains("roda_topology") && document.contains("topology");
  try {
    const Field field = is_wrapped ? Field(document)["topology"] : Field(document);
    field.must_be_object();
    *out = convert(field);
  } catch (const Malformed& malformed) {
    return Status::invalid(malformed.text);
  }
  return {};
}

}  // namespace

Status from_json(std::string_view text, Topology* topology) { return read(text, to_topology, topology); }
Status from_json(std::string_view text, Machine* machine) { return read(text, to_machine, machine); }

}  // namespace roda::topology
