#include "core/engine/link_wishes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/engine/version.h"
#include "plugins/base/format.h"

namespace roda::engine {
namespace {

std::string place(const HostIdentity& host) {
  return roda::format("{} {} {}", host.boot_id, host.hostname, host.network_namespace);
}

// What an allreduce between two ranks would be carried by; null: nothing, or nothing that can be tried.
const roda_transport* carrier(const Planner& planner, int hosts) {
  PlanQuery query;
  query.bytes = 1 << 20;
  query.size = 2;
  query.hosts = hosts;
  for (const select::Verdict& verdict : planner.candidates(query)) {
    if (!verdict.usable) continue;
    const roda_transport* transport = planner.plan_of(query, verdict.option).stages.front().transport;
    return can_try(*transport) ? transport : nullptr;
  }
  return nullptr;
}

class List {
 public:
  List(const Planner& planner, const std::vector<HostIdentity>& hosts)
      : hosts_(hosts), near_(carrier(planner, 1)), far_(carrier(planner, 2)) {}

  // Between two ranks of a host.
  void inside(std::size_t host, std::int32_t first, std::int32_t second) {
    const bool is_near = near_ != nullptr && (near_->capabilities & RODA_CAP_SAME_HOST) != 0;
    if (is_near) add("memory", &Links::memory, near_, {host}, {first, second});
    const bool has_loopback = !is_near || far_ != nullptr || hosts_.size() > 1;
    if (has_loopback) add("loopback", &Links::loopback, far_, {host}, {first, second});
  }
  void between(std::int32_t first, std::int32_t second) {
    add("network", &Links::network, far_, {0, 1}, {first, second});
  }
  std::vector<LinkWish> take() {
    wishes_.push_back({"processor", cache_key({"processor", kVersion, place(hosts_.front())}), nullptr, {}});
    return std::move(wishes_);
  }

 private:
  void add(const char* name, Link Links::*link, const roda_transport* transport, const std::vector<std::size_t>& hosts,
           std::array<std::int32_t, 2> ranks) {
    std::vector<std::string> words{name, kVersion, transport != nullptr ? transport->name : ""};
    for (const std::size_t host : hosts) words.push_back(place(hosts_[host]));
    LinkTrial trial;
    trial.ranks = ranks;
    trial.transport = transport;
    wishes_.push_back({name, cache_key(words), link, trial});
  }

  const std::vector<HostIdentity>& hosts_;
  const roda_transport* near_;
  const roda_transport* far_;
  std::vector<LinkWish> wishes_;
};

}  // namespace

std::vector<LinkWish> link_wishes(const Topology& topology, const Planner& planner) {
  std::vector<std::vector<std::int32_t>> ranks(topology.hosts.size());
  for (std::int32_t rank = 0; rank < topology.size; ++rank) {
    ranks[static_cast<std::size_t>(topology.host_of[static_cast<std::size_t>(rank)])].push_back(rank);
  }
  List list(planner, topology.hosts);
  const auto full = std::find_if(ranks.begin(), ranks.end(), [](const auto& host) { return host.size() > 1; });
  if (full != ranks.end()) list.inside(static_cast<std::size_t>(full - ranks.begin()), (*full)[0], (*full)[1]);
  if (ranks.size() > 1) list.between(ranks[0].front(), ranks[1].front());
  return list.take();
}

std::vector<LinkWish> link_wishes(const HostIdentity& host, const Planner& planner) {
  const std::vector<HostIdentity> hosts{host};
  List list(planner, hosts);
  list.inside(0, 0, 1);
  return list.take();
}

Figures figures_of(const LinkWish& wish, const Links& links) {
  if (wish.link == nullptr) return {{"reduce_GBps", links.reduce_GBps}, {"copy_GBps", links.copy_GBps}};
  const Link& link = links.*wish.link;
  return {{"latency_us", link.latency_us}, {"overhead_us", link.overhead_us}, {"GBps", link.GBps}};
}

bool apply(const LinkWish& wish, const Figures& figures, Links* links) {
  for (const auto& [name, ignored] : figures_of(wish, *links)) {
    if (const auto found = figures.find(name); found == figures.end() || !(found->second > 0)) return false;
  }
  if (wish.link == nullptr) {
    links->reduce_GBps = figures.at("reduce_GBps");
    links->copy_GBps = figures.at("copy_GBps");
  } else {
    links->*wish.link = {figures.at("latency_us"), figures.at("overhead_us"), figures.at("GBps")};
  }
  return true;
}

}  // namespace roda::engine
