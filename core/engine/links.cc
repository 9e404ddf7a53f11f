#include "core/engine/links.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "algorithms/text/fields.h"

namespace roda::engine {
namespace {

constexpr double kInfiniBandLatency = 1.5, kInfiniBandOverhead = 0.3;

// Gbit/s of the fastest network device of the machine, and whether it is InfiniBand.
std::pair<double, bool> fastest_device(const topology::Machine& machine) {
  std::pair<double, bool> fastest{0, false};
  for (const topology::Nic& nic : machine.nics) {
    if (nic.is_up && nic.speed_mbit > 0) fastest = std::max(fastest, {nic.speed_mbit / 1e3, false});
  }
  for (const topology::RdmaDevice& device : machine.rdma_devices) {
    for (const topology::RdmaPort& port : device.ports) {
      if (port.is_active) fastest = std::max(fastest, {port.rate_mbit / 1e3, port.link_layer == "InfiniBand"});
    }
  }
  return fastest;
}

void read_link(text::Fields* fields, const char* name, Link* link) {
  if (!fields->has(name)) return;
  text::Fields inner(fields->required(name), name);
  link->latency_us = inner.number("latency_us", link->latency_us);
  link->overhead_us = inner.number("overhead_us", link->overhead_us);
  link->GBps = inner.number("GBps", link->GBps);
  inner.end();
  if (!(link->GBps > 0) || link->latency_us < 0 || link->overhead_us < 0)
    inner.fail("GBps must be above 0, times not below");
}

nlohmann::json json_of(const Link& link) {
  return {{"latency_us", link.latency_us}, {"overhead_us", link.overhead_us}, {"GBps", link.GBps}};
}

}  // namespace

Links links_of(const topology::Cluster& cluster) {
  Links links;
  std::optional<std::pair<double, bool>> slowest;
  for (const topology::Host& host : cluster.hosts) {
    const auto fastest = fastest_device(cluster.machines[static_cast<std::size_t>(host.machine)].machine);
    if (fastest.first > 0) slowest = slowest ? std::min(*slowest, fastest) : fastest;
  }
  if (cluster.hosts.size() < 2 || !slowest) return links;
  links.network.GBps = slowest->first / 8;
  if (slowest->second) links.network = {kInfiniBandLatency, kInfiniBandOverhead, links.network.GBps};
  links.source = "assumed; the network's bandwidth as its interfaces tell it";
  return links;
}

Status parse_links(const std::string& text, const std::string& from, Links* links) {
  try {
    const nlohmann::json object = text::parse_json(text);
    text::Fields fields(object, "the links");
    read_link(&fields, "memory", &links->memory);
    read_link(&fields, "loopback", &links->loopback);
    read_link(&fields, "network", &links->network);
    links->reduce_GBps = fields.number("reduce_GBps", links->reduce_GBps);
    links->copy_GBps = fields.number("copy_GBps", links->copy_GBps);
    links->source = fields.has("source") ? fields.text("source") : from;
    fields.end();
    if (!(links->reduce_GBps > 0) || !(links->copy_GBps > 0)) fields.fail("reduce_GBps and copy_GBps must be above 0");
  } catch (const text::Wrong& wrong) {
    return Status::invalid(from + ": " + wrong.what());
  }
  return {};
}

Status read_links(const std::string& path, Links* links) {
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  if (!file) return Status::invalid("RODA_LINKS: " + path + ": can't be read");
  const Status status = parse_links(all.str(), path, links);
  if (!status.ok()) return Status::invalid("RODA_LINKS: " + status.message());
  links->are_measured = true;
  return {};
}

std::string one_line(const Links& links) {
  return nlohmann::json{{"memory", json_of(links.memory)},
                        {"loopback", json_of(links.loopback)},
                        {"network", json_of(links.network)},
                        {"reduce_GBps", links.reduce_GBps},
                        {"copy_GBps", links.copy_GBps}}
      .dump();
}

}  // namespace roda::engine
