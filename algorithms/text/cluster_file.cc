#include "algorithms/text/schedule_file.h"

#include "algorithms/text/fields.h"

namespace roda::text {

using nlohmann::json;

namespace {

constexpr std::int32_t kMost = 1 << 24;

sim::Level read_level(const json& value, std::size_t number) {
  Fields fields(value, "level " + std::to_string(number));
  sim::Level level;
  level.name = fields.text("name");
  level.members = fields.whole("members", 1, kMost, 0);
  level.latency_us = fields.number("latency_us", 0);
  level.overhead_us = fields.number("overhead_us", 0);
  fields.required("GBps");
  level.GBps = fields.number("GBps", 0);
  level.ports = fields.whole("ports", 1, 1024, 1);
  level.full_duplex = fields.flag("full_duplex", true);
  level.total_GBps = fields.number("total_GBps", 0);
  fields.end();
  return level;
}

void read_placement(const json& list, sim::Cluster* cluster) {
  for (const json& ranks : list) {
    if (!ranks.is_number_integer() || ranks < 1 || ranks > kMost) {
      throw Wrong("the cluster file: \"placement\" must be a list of numbers of ranks");
    }
    cluster->placement.push_back(ranks.get<std::int32_t>());
  }
}

sim::Cluster parse_cluster(const std::string& text) {
  const json file = parse_json(text);
  Fields fields(file, "the cluster file");
  sim::Cluster cluster;
  cluster.name = fields.text("name");
  if (fields.has("about")) fields.text("about");
  for (const json& level : fields.list("levels")) cluster.levels.push_back(read_level(level, cluster.levels.size()));
  cluster.reduce_GBps = fields.number("reduce_GBps", cluster.reduce_GBps);
  cluster.copy_GBps = fields.number("copy_GBps", cluster.copy_GBps);
  if (fields.has("gpus")) {
    Fields gpus(fields.required("gpus"), "\"gpus\" of the cluster file");
    gpus.required("copy_GBps");
    cluster.gpus = {gpus.number("copy_GBps", 0), gpus.number("copy_us", 0)};
    gpus.end();
  }
  if (fields.has("placement")) read_placement(fields.list("placement"), &cluster);
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
