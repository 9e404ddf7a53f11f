#include "algorithms/text/field.h"
#include "tools/sim/model/cluster.h"

namespace roda::sim {

using nlohmann::json;
using text::Field;

namespace {

constexpr std::int32_t kMost = 1 << 24;

Level read_level(const Field& fields) {
  Level level;
  level.name = fields.get<std::string>("name");
  level.members = fields.get("members", 1, kMost, 0);
  level.latency_us = fields.get("latency_us", 0.0);
  level.overhead_us = fields.get("overhead_us", 0.0);
  level.GBps = fields.get<double>("GBps");
  level.ports = fields.get("ports", 1, 1024, 1);
  level.full_duplex = fields.get("full_duplex", true);
  level.total_GBps = fields.get("total_GBps", 0.0);
  fields.end();
  return level;
}

Cluster parse_cluster(const std::string& json_text) {
  const json file = text::parse_json(json_text);
  const Field fields(file);
  Cluster cluster;
  cluster.name = fields.get<std::string>("name");
  fields.get("about", std::string());
  fields["levels"].for_each([&](const Field& level) { cluster.levels.push_back(read_level(level)); });
  cluster.reduce_GBps = fields.get("reduce_GBps", cluster.reduce_GBps);
  cluster.copy_GBps = fields.get("copy_GBps", cluster.copy_GBps);
  if (fields.has("placement")) {
    fields["placement"].for_each(
        [&](const Field& ranks) { cluster.placement.push_back(static_cast<std::int32_t>(ranks.integer(1, kMost))); });
  }
  fields.end();
  return cluster;
}

}  // namespace

std::optional<std::string> read_cluster(const std::string& json_text, Cluster* cluster) {
  try {
    *cluster = parse_cluster(json_text);
  } catch (const text::Wrong& wrong) {
    return wrong.what();
  }
  return wrong_with(*cluster);
}

}  // namespace roda::sim
