#include "core/engine/link_cache.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/text/fields.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr const char* kVersionField = "roda_link_cache";
// The only figure of an entry that tells of a failure: hours since 1970. Versions that do not know it find nothing
// there.
constexpr const char* kFailedField = "failed_at_hours";
// What no link of this century is beyond: bytes of a file are not to be believed.
constexpr double kLeast = 1e-6, kMost = 1e7;

double hours(LinkCache::Clock::duration time) {
  return std::chrono::duration<double, std::chrono::hours::period>(time).count();
}

Figures figures_of(const nlohmann::json& object) {
  text::Fields fields(object, "figures");
  Figures figures;
  for (const auto& [name, ignored] : object.items()) {
    const double value = fields.number(name.c_str(), 0);
    if (!std::isfinite(value) || value < kLeast || value > kMost) fields.fail("\"" + name + "\" is out of range");
    figures[name] = value;
  }
  return figures;
}

// Host names need not be UTF-8.
std::string text_of(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The text of the file, at most kMostBytes and one; nullopt: there is none.
std::optional<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Beside the file, then renamed over it.
bool replace(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const std::filesystem::path fresh = path.string() + "." + std::to_string(::getpid());
  {
    std::ofstream file(fresh, std::ios::binary);
    file << text;
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(fresh, path, error);
  if (!error) return true;
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  return false;
}

}  // namespace

LinkCache LinkCache::of_user() {
  const char* folder = std::getenv("XDG_CACHE_HOME");
  if (folder != nullptr && folder[0] == '/') return LinkCache(std::string(folder) + "/roda/links.json");
  const char* home = std::getenv("HOME");
  return LinkCache(home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/roda/links.json" : "");
}

void LinkCache::load() {
  entries_.clear();
  const auto text = path_.empty() ? std::nullopt : contents(path_);
  if (!text) return;
  try {
    if (text->size() > kMostBytes) throw text::Wrong("more than " + std::to_string(kMostBytes) + " bytes");
    const nlohmann::json object = text::parse_json(*text);
    text::Fields fields(object, "the cache");
    fields.whole(kVersionField, 1, 1);
    std::vector<Entry> entries;
    for (const nlohmann::json& entry : fields.list("entries")) {
      text::Fields inner(entry, "entry " + std::to_string(entries.size()));
      entries.push_back({inner.text("key"), figures_of(inner.required("figures"))});
      inner.end();
    }
    fields.end();
    entries_ = std::move(entries);
  } catch (const text::Wrong& wrong) {
    RODA_LOG(warning, "{} is malformed ({}): nothing of it is believed, and the links are measured anew", path_,
             wrong.what());
  }
}

std::optional<Figures> LinkCache::find(const std::string& key) const {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry.figures;
  }
  return std::nullopt;
}

void LinkCache::add(const std::string& key, const Figures& figures) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  entries_.insert(entries_.begin(), {key, figures});
  if (entries_.size() > kMostEntries) entries_.resize(kMostEntries);
}

void LinkCache::add_failure(const std::string& key, Clock::time_point now) {
  const auto known = find(key);
  if (!known || known->count(kFailedField) != 0) add(key, {{kFailedField, hours(now.time_since_epoch())}});
}

// A clock that was put back makes no failure last.
bool LinkCache::failed_lately(const std::string& key, Clock::time_point now) const {
  const auto known = find(key);
  if (!known || known->count(kFailedField) == 0) return false;
  const double age = hours(now.time_since_epoch()) - known->at(kFailedField);
  return age >= 0 && age < hours(kFailureHolds);
}

void LinkCache::save() const {
  if (path_.empty()) return;
  nlohmann::json list = nlohmann::json::array();
  for (const Entry& entry : entries_) list.push_back({{"key", entry.key}, {"figures", entry.figures}});
  const std::string text = text_of({{kVersionField, 1}, {"entries", list}}, 1) + "\n";
  if (!replace(path_, text)) RODA_LOG(info, "the measured links can't be kept in {}", path_);
}

std::string cache_key(const std::vector<std::string>& words) {
  std::string key;
  for (const std::string& word : words) key += (key.empty() ? "" : " | ") + text_of(word, -1);
  return key;
}

}  // namespace roda::engine
