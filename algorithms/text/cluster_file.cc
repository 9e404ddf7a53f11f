#include "algorithms/text/schedule_file.h"

#include "algorithms/text/field.h"

namespace roda::text {

using nlohmann::json;

namespace {

constexpr std::int32_t kMost = 1 << 24;

sim::Level read_level(const Field& fields) {
  sim::Level level;
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

sim::Cluster parse_cluster(const std::string& text) {
  const json file = parse_json(text);
  const Field fields(file);
  sim::Cluster cluster;
  cluster.name = fields.get<std::string>("name");
  fields.get("about", std::string());
  fields["levels"].for_each([&](const Field& level) { cluster.levels.push_back(read_level(level)); });
  cluster.reduce_GBps = fields.get("reduce_GBps", cluster.reduce_GBps);
  cluster.copy_GBps = fields.get("copy_GBps", cluster.copy_GBps);
  if (fields.has("gpus")) {
    const Field gpus = fields["gpus"];
    cluster.gpus = {gpus.get<double>("copy_GBps"), gpus.get("copy_us", 0.0)};
    gpus.end();
  }
  if (fields.has("placement")) {
    fields["placement"].for_each(
        [&](const Field& ranks) { cluster.placement.push_back(static_cast<std::int32_t>(ranks.integer(1, kMost))); });
  }
  fields.end();
  return cluster;
}

}  // namespace

std::optional<std::string> read_cluster(const std::string& text, sim::Cluster* cluster) {
  try {
    *cluster = parse_cluster(text);
  } catch (const Wrong& wrong) {
    return wrong.what();
  }
  return sim::wrong_with(*cluster);
}

}  // namespace roda::text
