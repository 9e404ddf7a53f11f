#include "core/engine/find_links.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "core/engine/link_cache.h"
#include "core/engine/link_wishes.h"
#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

using Clock = Store::Clock;
using Wishes = std::vector<LinkWish>;

constexpr auto kMostTime = std::chrono::seconds(1);  // of all trials together

// How each figure was come by.
class Sources {
 public:
  static constexpr const char* kAssumed = "assumed";
  static constexpr const char* kFailed = "assumed, for measuring failed some minutes ago";
  static constexpr const char* kCached = "measured by an earlier job";
  static constexpr const char* kMeasured = "measured at init";

  void add(const char* how, const std::string& what) { by_[how].push_back(what); }
  void tell(Links* links) const {
    links->are_measured = by_.count(kAssumed) == 0 && by_.count(kFailed) == 0;
    links->source.clear();
    for (const auto& [how, what] : by_) {
      links->source += roda::format("{}{} ({})", links->source.empty() ? "" : ", ", how, roda::join(what, ", "));
    }
  }

 private:
  std::map<std::string, std::vector<std::string>> by_;
};

// Takes what the cache has, and returns the rest.
Wishes look_up(const Wishes& wishes, const LinkCache& cache, Links* links, Sources* sources) {
  Wishes rest;
  for (const LinkWish& wish : wishes) {
    const auto known = cache.find(wish.key);
    if (known && apply(wish, *known, links)) {
      sources->add(Sources::kCached, wish.name);
    } else {
      rest.push_back(wish);
    }
  }
  return rest;
}

// A machine that was too busy a moment ago mostly still is: a job need not pay for that again.
void leave_what_failed(const LinkCache& cache, Wishes* wishes, Sources* sources) {
  const auto now = LinkCache::Clock::now();
  std::erase_if(*wishes, [&](const LinkWish& wish) {
    const bool has_failed = cache.failed_lately(wish.key, now);
    if (has_failed) sources->add(Sources::kFailed, wish.name);
    return has_failed;
  });
}

std::string result_key(const LinkWish& wish) { return wish.trial.name + "/result"; }

// A rank's part in what is measured: in the order of the list, so that no two ranks wait for each other in turn.
void take_part(const Wishes& wishes, const LinkSearch& search, Clock::time_point deadline) {
  const int rank = search.topology.rank;
  for (const LinkWish& wish : wishes) {
    const auto& pair = wish.trial.ranks;
    if (wish.trial.transport == nullptr || (pair[0] != rank && pair[1] != rank)) continue;
    Links found;
    const Status status = try_link(wish.trial, rank, search.host, search.store, deadline, &(found.*wish.link));
    if (!status.ok()) RODA_LOG(debug, "the link {} can't be measured: {}", wish.name, status.message());
    if (pair[0] != rank) continue;
    const Figures figures = status.ok() ? figures_of(wish, found) : Figures();
    static_cast<void>(search.store.put(result_key(wish), nlohmann::json(figures).dump()));
  }
}

// What the pair found; empty when it found nothing in time.
Figures result_of(const LinkWish& wish, Store& store, Clock::time_point deadline) {
  std::string text;
  Figures figures;
  if (wish.trial.transport == nullptr || !store.wait(result_key(wish), deadline, &text).ok()) return figures;
  const nlohmann::json told = nlohmann::json::parse(text, nullptr, false);
  for (const auto& [name, value] : told.items()) {
    if (value.is_number()) figures[name] = value.get<double>();
  }
  return figures;
}

// Memory that is slower than the loopback was measured while somebody else had the cores.
bool is_plausible(const Links& links, const Wishes& wishes) {
  const bool has_memory = std::any_of(wishes.begin(), wishes.end(), [](const auto& w) { return w.name == "memory"; });
  return !has_memory ||
         (links.memory.latency_us <= links.loopback.latency_us && links.memory.GBps >= links.loopback.GBps);
}

// Rank 0, after its own part: takes and keeps what was found of the rest of the wishes.
void collect(const Wishes& wishes, const Wishes& rest, const LinkSearch& search, Clock::time_point deadline,
             LinkCache* cache, Links* links, Sources* sources) {
  Links found = *links;
  std::vector<std::pair<const LinkWish*, Figures>> all;
  for (const LinkWish& wish : rest) {
    Links tried;
    if (wish.link == nullptr) try_processor(&tried);
    all.emplace_back(&wish, wish.link == nullptr ? figures_of(wish, tried) : result_of(wish, search.store, deadline));
    if (!apply(wish, all.back().second, &found)) all.back().second.clear();
  }
  const bool is_believed = is_plausible(found, wishes);
  if (!is_believed)
    RODA_LOG(info, "the links' figures contradict each other, and are not believed: {}", one_line(found));
  for (const auto& [wish, figures] : all) {
    const bool is_known = is_believed && !figures.empty();
    sources->add(is_known ? Sources::kMeasured : Sources::kAssumed, wish->name);
    const bool was_tried = wish->link == nullptr || wish->trial.transport != nullptr;
    if (is_known) cache->add(wish->key, figures);
    if (!is_known && was_tried) cache->add_failure(wish->key, LinkCache::Clock::now());
  }
  if (is_believed) *links = found;
  cache->save();
}

// What rank 0 says first: the links, or the numbers of the wishes that must be measured before it can.
std::string numbers_of(const Wishes& rest, const Wishes& wishes) {
  std::string numbers;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const bool is_left = std::any_of(rest.begin(), rest.end(), [&](const auto& w) { return w.name == wishes[i].name; });
    if (is_left) numbers += std::to_string(i) + " ";
  }
  return numbers;
}

Wishes numbered(const std::string& numbers, const Wishes& wishes) {
  Wishes rest;
  std::istringstream in(numbers);
  for (std::size_t number = 0; in >> number;) {
    if (number < wishes.size()) rest.push_back(wishes[number]);
  }
  return rest;
}

std::string packed(const Links& links) {
  nlohmann::json object = nlohmann::json::parse(one_line(links));
  object["source"] = links.source;
  return nlohmann::json{{"links", object}, {"are_measured", links.are_measured}}.dump();
}

Status unpack(const std::string& text, Links* links) {
  const nlohmann::json told = nlohmann::json::parse(text, nullptr, false);
  if (!told.is_object() || !told.contains("links")) return Status::unknown("rank 0's links can't be read");
  RODA_RETURN_IF_ERROR(parse_links(told["links"].dump(), "rank 0's links", links));
  links->are_measured = told.value("are_measured", false);
  return {};
}

Status decide(const Wishes& wishes, const LinkSearch& search, Clock::time_point limit, Links* links) {
  LinkCache cache = LinkCache::of_user();
  cache.load();
  Sources sources;
  const bool is_forced = search.knobs.measure_links == "always";
  Wishes rest = is_forced ? wishes : look_up(wishes, cache, links, &sources);
  if (!is_forced) leave_what_failed(cache, &rest, &sources);
  if (!rest.empty()) {
    RODA_RETURN_IF_ERROR(search.store.put(search.prefix + "/first", numbers_of(rest, wishes)));
    take_part(rest, search, limit);
    collect(wishes, rest, search, limit, &cache, links, &sources);
  }
  sources.tell(links);
  return search.store.put(search.prefix + (rest.empty() ? "/first" : "/links"), packed(*links));
}

Status follow(const Wishes& wishes, const LinkSearch& search, Clock::time_point limit, Links* links) {
  std::string text;
  RODA_RETURN_IF_ERROR(search.store.wait(search.prefix + "/first", search.deadline, &text));
  if (text.starts_with('{')) return unpack(text, links);
  take_part(numbered(text, wishes), search, limit);
  RODA_RETURN_IF_ERROR(search.store.wait(search.prefix + "/links", search.deadline, &text));
  return unpack(text, links);
}

}  // namespace

Status given_links(const Knobs& knobs, const topology::Cluster& cluster, Links* links) {
  *links = links_of(cluster);
  return knobs.links.empty() ? Status() : read_links(knobs.links, links);
}

Status find_links(const LinkSearch& search, Links* links) {
  const Knobs& knobs = search.knobs;
  if (!knobs.links.empty() || knobs.measure_links == "never" || search.topology.size < 2) return {};
  Wishes wishes = link_wishes(search.topology, search.planner);
  for (LinkWish& wish : wishes) {
    wish.trial.name = search.prefix + "/" + wish.name;
    wish.trial.generation = search.generation;
    wish.trial.spins = search.topology.has_core_each;
  }
  const auto limit = std::min(search.deadline, Clock::now() + kMostTime);
  return search.topology.rank == 0 ? decide(wishes, search, limit, links) : follow(wishes, search, limit, links);
}

void look_up_links(const Knobs& knobs, const Planner& planner, Links* links) {
  if (!knobs.links.empty() || knobs.measure_links == "never") return;
  LinkCache cache = LinkCache::of_user();
  cache.load();
  Sources sources;
  for (const LinkWish& wish : look_up(link_wishes(this_host(knobs.hostname), planner), cache, links, &sources)) {
    sources.add(Sources::kAssumed, wish.name);
  }
  sources.tell(links);
}

}  // namespace roda::engine
