#include "core/plan/levels.h"

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

namespace roda::engine {
namespace {

using topology::Level;
using Units = std::vector<std::int32_t>;

constexpr std::pair<const char*, Level> kKnown[] = {
    {"cache", Level::kCache}, {"numa", Level::kNumaNode}, {"package", Level::kPackage}, {"host", Level::kHost}};

Status refused(const std::string& what) { return Status::invalid("RODA_LEVELS: " + what); }

// Empty where the topology says nothing.
Units units_of(const topology::Cluster& cluster, Level level) {
  const auto groups = topology::groups(cluster, level);
  if (groups.empty()) return {};
  Units units(static_cast<std::size_t>(cluster.size()));
  for (std::size_t unit = 0; unit < groups.size(); ++unit) {
    for (const int rank : groups[unit]) units[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(unit);
  }
  return units;
}

// `count` consecutive units of the level below make one; inside hosts they are counted in each host.
Units bundle(const Units& below, const Units& hosts, bool is_inside, std::int32_t count) {
  std::map<std::int32_t, std::map<std::int32_t, std::int32_t>> seen;  // by host: units below, in order
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  Units units;
  for (std::size_t rank = 0; rank < below.size(); ++rank) {
    const std::int32_t host = is_inside ? hosts[rank] : 0;
    auto& order = seen[host];
    const std::int32_t place = order.emplace(below[rank], static_cast<std::int32_t>(order.size())).first->second;
    const std::pair key{host, place / count};
    units.push_back(numbers.emplace(key, static_cast<std::int32_t>(numbers.size())).first->second);
  }
  return units;
}

// Whether every unit of `inner` lies in one unit of `outer`; *same: they are the same units.
bool is_nested(const Units& inner, const Units& outer, bool* same) {
  std::map<std::int32_t, std::int32_t> in, out;
  *same = true;
  for (std::size_t rank = 0; rank < inner.size(); ++rank) {
    if (in.emplace(inner[rank], outer[rank]).first->second != outer[rank]) return false;
    *same = *same && out.emplace(outer[rank], inner[rank]).first->second == inner[rank];
  }
  return true;
}

Levels found_levels(const topology::Cluster& cluster) {
  Levels levels;
  for (const auto& [name, level] : kKnown) {
    Units units = units_of(cluster, level);
    bool same = false;
    if (units.empty()) continue;
    if (!levels.units.empty() && !is_nested(levels.units.back(), units, &same)) continue;
    if (same) {  // the outer one's name says more
      levels.names.pop_back();
      levels.units.pop_back();
    }
    levels.names.emplace_back(name);
    levels.units.push_back(std::move(units));
  }
  levels.host = levels.names.size() - 1;
  return levels;
}

std::optional<Level> known_level(const std::string& name) {
  for (const auto& [known, level] : kKnown) {
    if (name == known) return level;
  }
  return std::nullopt;
}

// One word of the list.
Status add_level(const std::string& word, const topology::Cluster& cluster, const Units& hosts, bool is_inside,
                 Levels* levels) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::optional<Level> level = known_level(name);
  Units units;
  if (equals != std::string::npos) {
    std::int32_t count = 0;
    const auto [end, error] = std::from_chars(word.data() + equals + 1, word.data() + word.size(), count);
    if (level == Level::kHost || name.empty() || error != std::errc() || count < 1 ||
        end != word.data() + word.size()) {
      return refused("\"" + word + "\" is no level: give NAME=N with a whole number from 1, and not for host");
    }
    Units ranks;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) ranks.push_back(static_cast<std::int32_t>(rank));
    units = bundle(levels->units.empty() ? ranks : levels->units.back(), hosts, is_inside, count);
  } else if (level.has_value()) {
    units = units_of(cluster, *level);
    if (units.empty()) {
      return refused("the topology does not tell the ranks' " + name + ": some rank is bound to no one of them");
    }
  } else {
    return refused("there is no level \"" + name + "\": give cache, numa, package, host or NAME=N");
  }
  bool same = false;
  if (!levels->units.empty() && !is_nested(levels->units.back(), units, &same)) {
    return refused("the ranks of one " + levels->names.back() + " are in several of " + name +
                   ": name the levels from the inside out");
  }
  if (level == Level::kHost) levels->host = levels->names.size();
  levels->names.push_back(name);
  levels->units.push_back(std::move(units));
  return {};
}

}  // namespace

Levels host_levels(const std::vector<int>& host_of) { return {{"host"}, {Units(host_of.begin(), host_of.end())}, 0}; }

Status find_levels(const std::string& text, const topology::Cluster& cluster, Levels* levels) {
  const Levels hosts = host_levels(cluster.host_of());
  *levels = text.empty() ? hosts : text == "auto" ? found_levels(cluster) : Levels();
  if (!levels->names.empty()) return {};
  std::istringstream words(text);
  bool has_host = false;
  for (std::string word; std::getline(words, word, ',');) {
    RODA_RETURN_IF_ERROR(add_level(word, cluster, hosts.units.front(), !has_host, levels));
    has_host = has_host || levels->names.back() == "host";
  }
  return has_host ? Status() : refused("\"" + text + "\" names no host");
}

Levels subset(const Levels& levels, const std::vector<std::int32_t>& ranks) {
  Levels some{levels.names, {}, levels.host};
  for (const Units& units : levels.units) {
    Units& of = some.units.emplace_back();
    for (const std::int32_t rank : ranks) of.push_back(units[static_cast<std::size_t>(rank)]);
  }
  return some;
}

}  // namespace roda::engine
