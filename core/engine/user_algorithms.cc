#include "core/engine/user_algorithms.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "algorithms/schedule/user.h"
#include "algorithms/text/schedule_file.h"

namespace roda::engine {
namespace {

namespace fs = std::filesystem;
using schedule::Schedule;
using schedule::UserAlgorithm;

// What a file may have: more can't be a schedule of 512 ranks that anybody wants to run.
constexpr std::uintmax_t kMostBytes = 64u << 20;
constexpr int kSmallSizes = 8;

// Proofs of one name and collective, by the number of ranks; for root 0.
using BySize = std::map<int, std::vector<Schedule>>;
using Key = std::pair<schedule::Collective, std::string>;

Status refused(const std::string& path, const std::string& what) {
  return Status::invalid("RODA_SCHEDULES: " + path + ": " + what);
}

// The files that the setting names, in its order and inside folders by name.
Status list_files(const std::string& setting, std::vector<std::string>* paths) {
  std::istringstream words(setting);
  for (std::string path; std::getline(words, path, ':');) {
    std::error_code error;
    if (path.empty()) continue;
    if (!fs::is_directory(path, error)) {
      paths->push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".json") inside.push_back(at->path().string());
    }
    if (error) return refused(path, error.message());
    std::sort(inside.begin(), inside.end());
    paths->insert(paths->end(), inside.begin(), inside.end());
  }
  return {};
}

Status read_text(const std::string& path, std::string* text) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) return refused(path, "can't be read: " + error.message());
  if (bytes > kMostBytes) return refused(path, "has " + std::to_string(bytes) + " bytes; 64 MiB are read");
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  if (!file) return refused(path, "can't be read");
  *text = all.str();
  return {};
}

// What the files say of one algorithm.
struct Found {
  BySize sizes;
  std::string sources;  // "a.json, b.json"
  std::string digest;
};

std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return std::to_string(hash);
}

Status read_file(const std::string& path, std::map<Key, Found>* all) {
  std::string text;
  RODA_RETURN_IF_ERROR(read_text(path, &text));
  std::vector<Schedule> ranks;
  if (const auto wrong = text::read_schedules(text, &ranks)) return refused(path, *wrong);
  const Schedule& first = ranks.front();
  const Key key{first.collective, first.algorithm};
  if (const auto wrong = schedule::wrong_name(key.first, key.second)) return refused(path, *wrong);
  std::vector<Schedule> from_root(ranks.size());
  for (const Schedule& schedule : ranks) {
    Schedule moved = turned(schedule, -schedule.root);
    const auto rank = static_cast<std::size_t>(moved.rank);
    from_root[rank] = std::move(moved);
  }
  Found& found = (*all)[key];
  if (!found.sizes.emplace(first.size, std::move(from_root)).second) {
    return refused(path, found.sources + " has " + key.second + " for " + std::to_string(first.size) + " ranks, too");
  }
  found.sources += (found.sources.empty() ? "" : ", ") + path;
  found.digest = hash_of(found.digest + text);
  return {};
}

schedule::Draft draft_of(const Key& key, const Found& found) {
  const auto sizes = std::make_shared<const BySize>(found.sizes);
  return {key.second,
          "a schedule file",
          found.sources,
          found.digest,
          key.first,
          [sizes](int size) { return sizes->count(size) != 0; },
          [sizes](int rank, int size, Schedule* schedule) -> std::optional<std::string> {
            *schedule = sizes->at(size)[static_cast<std::size_t>(rank)];
            return std::nullopt;
          }};
}

// What a plugin adds steps to.
struct Sink {
  Schedule* schedule;
  bool is_wrong = false;
};

void add_step(void* sink, std::int32_t lane, const roda_step* step) {
  auto* to = static_cast<Sink*>(sink);
  const bool fits = lane >= 0 && lane < text::kMostLanes && step != nullptr && step->kind >= RODA_STEP_SEND &&
                    step->kind <= RODA_STEP_WAIT;
  if (!fits) {
    to->is_wrong = true;
    return;
  }
  const auto range = [](const roda_range& r) {
    return schedule::Range{static_cast<schedule::Space>(r.space), r.first, r.count};
  };
  auto& lanes = to->schedule->lanes;
  if (lanes.size() <= static_cast<std::size_t>(lane)) lanes.resize(static_cast<std::size_t>(lane) + 1);
  lanes[static_cast<std::size_t>(lane)].steps.push_back(
      {static_cast<schedule::StepKind>(step->kind), step->peer, range(step->src), range(step->dst), step->signal});
}

std::optional<std::string> make_with(const roda_algorithm& algorithm, int rank, int size, Schedule* schedule) {
  const bool is_cut_freely = algorithm.collective == RODA_ALLREDUCE || algorithm.collective == RODA_BROADCAST ||
                             algorithm.collective == RODA_BARRIER;
  roda_schedule about{sizeof(roda_schedule), is_cut_freely ? 1 : size, 0, 1, 0};
  Sink sink{schedule};
  roda_error error = make_error();
  if (const int code = algorithm.make(rank, size, &about, add_step, &sink, &error); code < 0) return error.message;
  if (sink.is_wrong) return "a step of no kind, or in no lane of 16";
  schedule->chunks = about.chunks;
  schedule->scratch_chunks = about.scratch_chunks;
  schedule->in_place = about.in_place != 0;
  schedule->reads_linger = about.reads_linger != 0;
  return std::nullopt;
}

bool is_collective(int collective) {
  switch (collective) {
    case RODA_ALLREDUCE:
    case RODA_ALLGATHER:
    case RODA_BROADCAST:
    case RODA_ALLTOALL:
    case RODA_BARRIER:
    case RODA_REDUCESCATTER:
      return true;
    default:
      return false;
  }
}

Status add_from_plugin(const plugins::PluginRecord& record, const roda_algorithm& algorithm, int size,
                       std::vector<std::shared_ptr<const UserAlgorithm>>* all) {
  const std::string who = "the plugin " + record.name + ": ";
  if (!is_collective(algorithm.collective)) {
    return Status::invalid(who + algorithm.name + " is for no collective that has algorithms");
  }
  const auto collective = static_cast<schedule::Collective>(algorithm.collective);
  if (const auto wrong = schedule::wrong_name(collective, algorithm.name)) return Status::invalid(who + *wrong);
  const auto made = std::make_shared<UserAlgorithm>(schedule::Draft{
      algorithm.name, algorithm.summary, record.path, hash_of(record.name + record.description), collective,
      [&algorithm](int ranks) { return algorithm.accepts(ranks) != 0; },
      [&algorithm](int rank, int ranks, Schedule* schedule) { return make_with(algorithm, rank, ranks, schedule); }});
  for (int ranks = size > 1 ? size : 2; ranks <= std::max(size, kSmallSizes); ++ranks) {
    if (!made->is_meant_for(ranks)) continue;
    if (const auto wrong = made->wrong_with(ranks)) return Status::invalid(who + *wrong);
    if (ranks == size) break;
  }
  all->push_back(made);
  return {};
}

}  // namespace

Status load_user_algorithms(const Knobs& knobs, const plugins::Loader& loader) {
  std::vector<std::string> paths;
  std::map<Key, Found> files;
  std::vector<std::shared_ptr<const UserAlgorithm>> all;
  RODA_RETURN_IF_ERROR(list_files(knobs.schedules, &paths));
  for (const std::string& path : paths) RODA_RETURN_IF_ERROR(read_file(path, &files));
  for (const auto& [key, found] : files) {
    const auto made = std::make_shared<UserAlgorithm>(draft_of(key, found));
    if (const auto wrong = made->wrong_with(found.sizes.begin()->first)) return refused(found.sources, *wrong);
    all.push_back(made);
  }
  for (const plugins::PluginRecord* record : loader.records()) {
    if (record->algorithms == nullptr) continue;
    for (int i = 0; i < record->algorithms->num_algorithms; ++i) {
      RODA_RETURN_IF_ERROR(add_from_plugin(*record, *record->algorithms->algorithms[i], knobs.size.value_or(1), &all));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i]->collective() != all[j]->collective() || all[i]->name() != all[j]->name()) continue;
      return Status::invalid(all[j]->source() + " and " + all[i]->source() + " both bring " + all[i]->name());
    }
  }
  schedule::set_user_algorithms(std::move(all));
  return {};
}

Status add_plugin_rules(const plugins::Loader& loader, select::Table* table, std::set<schedule::Collective>* ruled) {
  for (const plugins::PluginRecord* record : loader.records()) {
    if (record->algorithms == nullptr || record->algorithms->rules == nullptr) continue;
    std::string error;
    const auto rules = select::Table::parse(record->algorithms->rules, &error);
    if (!rules.has_value()) return Status::invalid("the rules of the plugin " + record->name + ": " + error);
    for (const select::Table::Rule& rule : rules->rules()) ruled->insert(rule.collective);
    *table = table->overridden_by(*rules);
  }
  return {};
}

std::string user_algorithms_note() {
  std::string note;
  for (const auto& algorithm : schedule::user_algorithms()) {
    note += std::string("algorithm ") + schedule::collective_name(algorithm->collective()) + "/" + algorithm->name() +
            "=" + algorithm->digest() + "\n";
  }
  return note;
}

}  // namespace roda::engine
