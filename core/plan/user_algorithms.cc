#include "core/plan/user_algorithms.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/schedule/user.h"
#include "algorithms/text/schedule_file.h"
#include "plugins/base/hash.h"

namespace roda::engine {
namespace {

namespace fs = std::filesystem;
using schedule::Schedule;
using schedule::UserAlgorithm;

// What a file may have: more can't be a schedule of 512 ranks that anybody wants to run.
constexpr std::uintmax_t kMostBytes = 64u << 20;

using Key = std::pair<schedule::Collective, std::string>;

Status refused(const std::string& path, const std::string& what) {
  return Status::invalid("HOROVOD_SELECT: schedules: " + path + ": " + what);
}

// The files that are named, in that order and inside folders by name.
Status list_files(const std::string& named, std::vector<std::string>* paths) {
  std::istringstream words(named);
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
    std::ranges::sort(inside);
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
  UserAlgorithm::BySize sizes;
  std::string sources;  // "a.json, b.json"
  std::string digest;
};

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
  Hash hash;
  hash.add(found.digest);
  hash.add(text);
  found.digest = std::to_string(hash.value());
  return {};
}

}  // namespace

std::string without_schedules(std::string rules, std::string* paths) {
  constexpr std::string_view kBlanks = " \t\r", kEnds = ";\n#", kWord = "schedules";
  for (std::size_t at = 0; at < rules.size();) {
    const std::size_t end = std::min(rules.find_first_of(kEnds, at), rules.size());
    const std::string_view rule = std::string_view(rules).substr(at, end - at);
    const std::size_t word = rule.find_first_not_of(kBlanks), equals = rule.find('=');
    const bool is_ours = equals != rule.npos && rule.find_last_not_of(kBlanks, equals - 1) + 1 == word + kWord.size() &&
                         rule.substr(word).starts_with(kWord);
    if (is_ours) {
      const std::string_view value = rule.substr(equals + 1);
      const std::size_t first = std::min(value.find_first_not_of(kBlanks), value.size());
      *paths +=
          (paths->empty() ? "" : ":") + std::string(value.substr(first, value.find_last_not_of(kBlanks) + 1 - first));
      std::fill(rules.begin() + static_cast<std::ptrdiff_t>(at), rules.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    }
    // A comment goes on to the end of its line.
    at = end < rules.size() && rules[end] == '#' ? std::min(rules.find('\n', end), rules.size()) : end;
    ++at;
  }
  return rules;
}

Status load_user_algorithms(const std::string& named) {
  std::vector<std::string> paths;
  std::map<Key, Found> files;
  std::vector<std::shared_ptr<const UserAlgorithm>> all;
  RODA_RETURN_IF_ERROR(list_files(named, &paths));
  for (const std::string& path : paths) RODA_RETURN_IF_ERROR(read_file(path, &files));
  for (const auto& [key, found] : files) {
    const auto made = std::make_shared<UserAlgorithm>(key.first, key.second, found.sources, found.digest, found.sizes);
    if (const auto wrong = made->wrong_with(found.sizes.begin()->first)) return refused(found.sources, *wrong);
    all.push_back(made);
  }
  schedule::set_user_algorithms(std::move(all));
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
