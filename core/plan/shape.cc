#include "core/plan/shape.h"

#include <algorithm>
#include <map>

namespace roda::engine {
namespace {

std::uint64_t hash_of(const std::vector<topology::Level>& levels) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const topology::Level& level : levels) {
    for (const char c : level.name) add(static_cast<unsigned char>(c));
    for (const std::int32_t unit : level.units) add(static_cast<std::uint32_t>(unit) + 256u);
  }
  return hash;
}

}  // namespace

Shape::Shape(const std::vector<topology::Level>& levels, int self)
    : self_(self), hash_(hash_of(levels)), nested_(plan::nested_grid(levels)) {
  const auto& hosts = levels[topology::host_level(levels)].units;
  std::map<std::int32_t, std::size_t> rows;
  for (std::size_t member = 0; member < hosts.size(); ++member) {
    const auto [row, is_new] = rows.emplace(hosts[member], table_.size());
    if (is_new) table_.emplace_back();
    table_[row->second].push_back(static_cast<int>(member));
  }
  by_host_ = plan::nested_grid({{topology::kHost, hosts}});
  lay_out_torus();
}

// Ranks of one host lie along x; where hosts have one each, hosts lie along x and y.
void Shape::lay_out_torus() {
  const bool has_neighbours = table_.front().size() > 1;
  const std::vector<std::int32_t> dims = plan::even_dims(hosts());
  if (hosts() < 2) {
    no_torus_ = "all ranks are on one host";
  } else if (!by_host_.is_even()) {
    no_torus_ = "the hosts have different numbers of ranks";
  } else if (has_neighbours) {
    torus_ = plan::Grid({"x", "y"}, by_host_.places(), 1);
  } else if (dims.back() < 2) {
    no_torus_ = std::to_string(hosts()) + " hosts of one rank each make no rectangle";
  } else {
    torus_ = plan::torus_grid(dims);
  }
}

}  // namespace roda::engine
