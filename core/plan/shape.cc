#include "core/plan/shape.h"

#include <algorithm>
#include <map>
#include <set>

#include "algorithms/plan/compose.h"

namespace roda::engine {
namespace {

std::uint64_t hash_of(const Levels& levels) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (std::size_t level = 0; level < levels.names.size(); ++level) {
    for (const char c : levels.names[level]) add(static_cast<unsigned char>(c));
    for (const std::int32_t unit : levels.units[level]) add(static_cast<std::uint32_t>(unit) + 256u);
  }
  return hash;
}

GridFacts::Axis facts_of(const std::vector<schedule::Members>& groups, const std::vector<std::int32_t>& hosts) {
  GridFacts::Axis axis;
  std::set<int> sizes;
  axis.smallest = INT32_MAX;
  for (const auto& group : groups) {
    const auto size = static_cast<int>(group->size());
    axis.smallest = std::min(axis.smallest, size);
    axis.largest = std::max(axis.largest, size);
    if (size > 1) sizes.insert(size);
    std::set<std::int32_t> on;
    for (const std::int32_t rank : *group) on.insert(hosts[static_cast<std::size_t>(rank)]);
    axis.hosts = std::max(axis.hosts, static_cast<int>(on.size()));
  }
  axis.sizes.assign(sizes.begin(), sizes.end());
  return axis;
}

int find_lonely_axis(const GridFacts& facts) {
  const auto innermost =
      std::find_if(facts.axes.begin(), facts.axes.end(), [](const auto& a) { return a.largest > 1; });
  if (innermost == facts.axes.begin() || innermost == facts.axes.end()) return -1;
  const bool has_inside = facts.axes_in_use > 1 && innermost->hosts == 1;
  return has_inside ? -1 : static_cast<int>(innermost - facts.axes.begin()) - 1;
}

GridFacts describe(plan::Grid grid, const std::vector<std::int32_t>& hosts) {
  GridFacts facts;
  facts.grid = std::move(grid);
  const plan::Axes axes(facts.grid);
  for (std::int32_t axis = 0; axis <= facts.grid.last_axis(); ++axis) {
    facts.axes.push_back(facts_of(axes.groups(axis), hosts));
    if (facts.axes.back().largest > 1) ++facts.axes_in_use;
  }
  facts.is_even = plan::is_even(facts.grid);
  facts.lonely_axis = find_lonely_axis(facts);
  return facts;
}

GridFacts no_grid(const std::string& why) {
  GridFacts facts;
  facts.missing = why;
  return facts;
}

// Ranks of one host lie along x; where hosts have one each, hosts lie along x and y.
GridFacts torus_of(const std::vector<std::int32_t>& hosts, int host_count) {
  const plan::Grid by_host = plan::nested_grid({"host"}, {hosts});
  const GridFacts facts = describe(by_host, hosts);
  if (host_count < 2) return no_grid("all ranks are on one host");
  if (!facts.is_even) return no_grid("the hosts have different numbers of ranks");
  plan::Grid torus = plan::torus_grid({facts.axes[0].largest, host_count});
  if (facts.axes[0].largest > 1) {
    torus.places = by_host.places;
    return describe(torus, hosts);
  }
  const std::vector<std::int32_t> dims = plan::even_dims(host_count);
  if (dims.back() < 2) return no_grid(std::to_string(host_count) + " hosts of one rank each make no rectangle");
  return describe(plan::torus_grid(dims), hosts);
}

}  // namespace

Shape::Shape(const Levels& levels, int self) : self_(self), hash_(hash_of(levels)) {
  const auto& hosts = levels.units[levels.host];
  std::map<std::int32_t, std::size_t> rows;
  for (std::size_t member = 0; member < hosts.size(); ++member) {
    const auto [row, is_new] = rows.emplace(hosts[member], table_.size());
    if (is_new) table_.emplace_back();
    table_[row->second].push_back(static_cast<int>(member));
  }
  hosts_ = static_cast<int>(table_.size());
  nested_ = describe(plan::nested_grid(levels.names, levels.units), hosts);
  torus_ = torus_of(hosts, hosts_);
}

bool Shape::has_even_hosts() const {
  return std::all_of(table_.begin(), table_.end(),
                     [&](const auto& host) { return host.size() == table_.front().size(); });
}

}  // namespace roda::engine
