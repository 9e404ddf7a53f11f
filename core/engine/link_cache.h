// What earlier jobs of this user measured, in a file of its own: $XDG_CACHE_HOME/roda/links.json, or ~/.cache/roda.
//
// Nothing depends on it: a file that can't be read or written is as good as none. One that is malformed is warned
// about, disbelieved as a whole and replaced at the next measurement. Threads: one at a time; processes may write at
// the same time, the last one's entries stay.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/links.h"

namespace roda::engine {

// The figures of one link, or of a processor: GBps of sums and copies.
using Figures = std::map<std::string, double>;

class LinkCache {
 public:
  // The user's; without a home none.
  static LinkCache of_user();
  // `path` empty: no file, so nothing is ever found.
  explicit LinkCache(std::string path) : path_(std::move(path)) {}

  // Reads the file. Not found: no error.
  void load();
  // Under a key: what was measured, where, by what. nullopt: unknown.
  std::optional<Figures> find(const std::string& key) const;
  // The latest come first; of many the oldest are dropped.
  void add(const std::string& key, const Figures& figures);
  // That it could not be measured: a loop of short jobs need not try it each time. Figures that are known stay.
  using Clock = std::chrono::system_clock;
  static constexpr std::chrono::minutes kFailureHolds{5};
  void add_failure(const std::string& key, Clock::time_point now);
  bool failed_lately(const std::string& key, Clock::time_point now) const;
  // Replaces the file at once and as a whole. Says at log level info why it can't.
  void save() const;

  const std::string& path() const { return path_; }

 private:
  struct Entry {
    std::string key;
    Figures figures;
  };
  std::string path_;
  std::vector<Entry> entries_;
};

// A key's words, separated so that no two lists of words make one key.
std::string cache_key(const std::vector<std::string>& words);

}  // namespace roda::engine
