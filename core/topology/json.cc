#include "core/topology/json.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "algorithms/text/field.h"
#include "plugins/base/format.h"
#include "plugins/base/hash.h"

namespace roda::topology {
namespace {

using nlohmann::json;
using text::dump;

constexpr int kSchema = 1;

// Reads a value's fields; see Writer for which must be there.
class Field : public text::Field {
 public:
  using text::Field::Field;
  Field(const text::Field& field) : text::Field(field) {}
  Field operator[](const char* key) const { return text::Field::operator[](key); }

  void needed(const char* key, auto& value) const { (*this)[key].to(&value); }
  void always(const char* key, auto& value) const {
    if (has(key)) (*this)[key].to(&value);
  }
  template <typename T>
  void known(const char* key, T& value, T /*unknown*/ = T()) const {
    always(key, value);
  }
  void number(const char* key, int& value, int least, int most) const { value = get(key, least, most); }
  void numbers(const char* key, std::vector<int>& values) const {
    if (has(key)) (*this)[key].to_list(&values);
  }

  using text::Field::to;
  void to(CpuSet* out) const {
    must(value().is_string() && parse_cpus(value().get_ref<const std::string&>(), out),
         "a list of numbers like \"0-3,8\", ascending");
  }
  void to(std::map<std::string, std::string>* out) const {
    for_each(true, [&](const std::string& key, const Field& entry) { entry.to(&(*out)[key]); });
  }
  void to(std::map<int, int>* out) const {
    for_each(true, [&](const std::string& key, const Field& entry) {
      int number = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
      must(error == std::errc() && end == key.data() + key.size() && number >= 0, "an object with numbers as keys");
      entry.to(&(*out)[number]);
    });
  }
  template <typename T>
  void to(std::vector<T>* out) const {
    to_list(out);
  }
  void to(auto* out) const {
    must(value().is_object(), "an object");
    fields(*this, *out);
  }

 private:
  template <typename T>
  void to_list(std::vector<T>* out) const {
    out->clear();
    for_each([&](const Field& entry) { entry.to(&out->emplace_back()); });
  }
};

// Makes an object of a value's fields.
class Writer {
 public:
  // Must be there.
  void needed(const char* key, const auto& value) { object_[key] = json_of(value); }
  // Is always written, and need not be there.
  void always(const char* key, const auto& value) { needed(key, value); }
  // Is written where it is known.
  template <typename T>
  void known(const char* key, const T& value, const T& unknown = T()) {
    if (value != unknown) needed(key, value);
  }
  void number(const char* key, int value, int /*least*/, int /*most*/) { object_[key] = value; }
  // As an array: elsewhere a list of numbers is a text, as the kernel writes sets.
  void numbers(const char* key, const std::vector<int>& values) {
    if (!values.empty()) object_[key] = values;
  }

  static json json_of(const CpuSet& set) { return print_cpus(set); }
  static json json_of(const std::map<int, int>& counts) {
    json out = json::object();
    for (const auto& [key, count] : counts) out[std::to_string(key)] = count;
    return out;
  }
  template <typename T>
  static json json_of(const std::vector<T>& list) {
    json out = json::array();
    for (const T& each : list) out.push_back(json_of(each));
    return out;
  }
  template <typename T>
  static json json_of(const T& value) {
    if constexpr (std::is_constructible_v<json, const T&>) {
      return value;
    } else {
      Writer writer;
      fields(writer, const_cast<T&>(value));  // takes what a reader could change
      return std::move(writer.object_);
    }
  }

 private:
  json object_ = json::object();
};

// --- the fields, for both -------------------------------------------------------------------------------------------

void fields(auto& io, PciPlace& pci) {
  io.known("address", pci.address);
  io.known("bridges", pci.bridges);
  io.known("numa_node", pci.numa_node, -1);
}

void fields(auto& io, Package& package) {
  io.needed("cpus", package.cpus);
  io.always("model", package.model);
}

void fields(auto& io, NumaNode& node) {
  io.needed("number", node.number);
  io.needed("cpus", node.cpus);
  io.known("memory_gib", node.memory_gib);
  io.numbers("distances", node.distances);
}

void fields(auto& io, CacheLevel& cache) {
  io.number("level", cache.level, 1, 5);
  io.needed("kib", cache.kib);
  io.needed("shared_by", cache.shared_by);
}

void fields(auto& io, Nic& nic) {
  io.needed("name", nic.name);
  io.known("speed_mbit", nic.speed_mbit);
  io.always("is_up", nic.is_up);
  io.always("is_physical", nic.is_physical);
  io.always("pci", nic.pci);
}

void fields(auto& io, RdmaPort& port) {
  io.needed("number", port.number);
  io.always("link_layer", port.link_layer);
  io.known("rate_mbit", port.rate_mbit);
  io.always("is_active", port.is_active);
}

void fields(auto& io, RdmaDevice& device) {
  io.needed("name", device.name);
  io.known("ports", device.ports);
  io.always("pci", device.pci);
}

void fields(auto& io, Gpu& gpu) {
  io.needed("model", gpu.model);
  io.always("pci", gpu.pci);
  io.known("memory_gib", gpu.memory_gib);
  io.known("compute_capability", gpu.compute_capability);
  io.known("nvlink_version", gpu.nvlink_version);
  io.known("switch_links", gpu.switch_links);
  io.known("peer_links", gpu.peer_links);
  io.known("peers", gpu.peers);
}

void fields(auto& io, Machine& machine) {
  io.needed("cpus", machine.cpus);
  io.known("model", machine.model);
  io.known("sources", machine.sources);
  io.always("cores", machine.cores);
  io.known("packages", machine.packages);
  io.known("numa_nodes", machine.numa_nodes);
  io.known("caches", machine.caches);
  io.known("nics", machine.nics);
  io.known("rdma_devices", machine.rdma_devices);
  io.known("gpus", machine.gpus);
  io.known("absent", machine.absent);
}

void fields(auto& io, Binding& binding) {
  io.needed("cpus", binding.cpus);
  io.known("cpu_limit", binding.cpu_limit);
}

// --- what one field alone can't tell --------------------------------------------------------------------------------

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

// Every rank from 0 up, each on one host.
void check_ranks(const Topology& topology, const Field& field) {
  std::vector<int> seen;
  for (const Host& host : topology.hosts) seen.insert(seen.end(), host.ranks.begin(), host.ranks.end());
  std::ranges::sort(seen);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != static_cast<int>(i)) {
      field["hosts"].refuse(roda::format("hosts that name each of {} ranks once; rank {} is not", seen.size(), i));
    }
  }
  if (!topology.bindings.empty() && topology.bindings.size() != seen.size()) {
    field["bindings"].refuse(roda::format("an array of {} bindings, one for each rank", seen.size()));
  }
}

// --- whole documents ------------------------------------------------------------------------------------------------

void read(const Field& field, Machine* machine) {
  field.to(machine);
  check(*machine, field);
}

Host read_host(const Field& field, const std::vector<NamedMachine>& machines) {
  Host host;
  std::string name;
  field.needed("name", host.name);
  field.known("place", host.place);
  field.needed("ranks", host.ranks);
  field.needed("machine", name);
  const auto known = std::ranges::find_if(machines, [&](const auto& m) { return m.name == name; });
  if (known == machines.end()) field["machine"].refuse("the name of one of /machines");
  host.machine = static_cast<int>(known - machines.begin());
  return host;
}

void read(const Field& field, Topology* topology) {
  int schema = 0;
  field.number("roda_topology", schema, kSchema, kSchema);
  field["machines"].for_each(true, [&](const std::string& name, const Field& entry) {
    read(entry, &topology->machines.emplace_back(NamedMachine{name, {}}).machine);
  });
  if (field.has("hosts")) {
    field["hosts"].for_each(
        [&](const Field& entry) { topology->hosts.push_back(read_host(entry, topology->machines)); });
  }
  field.known("bindings", topology->bindings);
  check_ranks(*topology, field);
  place_ranks(topology);
}

template <typename T>
Status parse(std::string_view text, T* out) try {
  const json document = text::parse_json(text);
  const bool is_wrapped = document.is_object() && !document.contains("roda_topology") && document.contains("topology");
  T found;
  read(is_wrapped ? Field(document)["topology"] : Field(document), &found);
  *out = std::move(found);
  return {};
} catch (const text::Wrong& wrong) {
  return Status::invalid(wrong.what());
}

std::string hash_of(const std::string& text) {
  Hash hash;
  hash.add(text);
  return roda::format("{:016x}", hash.value());
}

}  // namespace

Status from_json(std::string_view text, Topology* topology) { return parse(text, topology); }
Status from_json(std::string_view text, Machine* machine) { return parse(text, machine); }

std::string to_json(const Machine& machine, int indent) { return dump(Writer::json_of(machine), indent); }

std::string to_json(const Topology& topology, int indent) {
  json out{{"roda_topology", kSchema}, {"machines", json::object()}};
  for (const NamedMachine& named : topology.machines) out["machines"][named.name] = Writer::json_of(named.machine);
  for (const Host& host : topology.hosts) {
    const std::string& machine = topology.machines[static_cast<std::size_t>(host.machine)].name;
    json& entry =
        out["hosts"].emplace_back(json{{"name", host.name}, {"machine", machine}, {"ranks", print_cpus(host.ranks)}});
    if (!host.place.empty()) entry["place"] = host.place;
  }
  if (!topology.bindings.empty()) out["bindings"] = Writer::json_of(topology.bindings);
  return dump(out, indent);
}

Status load_file(const std::string& path, Topology* topology) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return Status::invalid(roda::format("the topology file '{}' can't be read: {}", path, error.message()));
  if (bytes > kMostFileBytes) {
    return Status::invalid(
        roda::format("the topology file '{}' has {} bytes; {} are the most", path, bytes, kMostFileBytes));
  }
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) {
    return Status::invalid(roda::format("the topology file '{}' can't be read", path));
  }
  const Status status = from_json(text, topology);
  if (status.ok()) return {};
  return Status::invalid(roda::format("the topology file '{}' is malformed: {}", path, status.message()));
}

Status write_file(const std::string& path, const Topology& topology) {
  const std::string beside = roda::format("{}.{}", path, ::getpid());
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << to_json(topology) << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
  if (file && !error) return {};
  std::remove(beside.c_str());
  return Status::system(roda::format("the topology can't be written to '{}': {}", path,
                                     error ? error.message() : "the file can't be written"));
}

std::string hash(const Machine& machine) {
  Machine bare = machine;
  bare.sources.clear();
  return hash_of(to_json(bare, -1));
}

std::string hash(const Topology& topology) {
  Topology bare = topology;
  for (NamedMachine& named : bare.machines) named.machine.sources.clear();
  return hash_of(to_json(bare, -1));
}

}  // namespace roda::topology
