#include "core/bootstrap/gather.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "plugins/base/fork_guard.h"
#include "plugins/base/format.h"

namespace roda {
namespace {

std::string report_key(const std::string& prefix) { return prefix + "/report"; }
std::string result_key(const std::string& prefix, std::size_t piece) {
  return roda::format("{}/result/{}", prefix, piece);
}

// How much longer than the deadline the others wait for rank 0, which waits for everybody until then.
constexpr std::chrono::seconds kVerdict{3};

Status missing(int rank, int size, const std::string& prefix) {
  return Status(RODA_ERR_TIMEOUT,
                roda::format("rank {} of {} has not come to '{}' in time; if it only starts late, raise "
                             "HOROVOD_GLOO_TIMEOUT_SECONDS",
                             rank, size, prefix),
                rank);
}

Status collect(Store& store, int size, const std::string& prefix, Deadline deadline, std::vector<std::string>* all) {
  const Status status = store.wait_all(report_key(prefix), size, deadline, all);
  if (status.code() != RODA_ERR_TIMEOUT || status.rank() >= 0) return status;
  const int rank = store.first_missing(report_key(prefix), size);
  return rank >= 0 ? missing(rank, size, prefix) : status;
}

// "<code> <rank> <length>\n" and the text, cut into pieces.
Status publish(Store& store, const std::string& prefix, const Status& status, const std::string& text) {
  std::string whole = roda::format("{} {} {}\n", status.code(), status.rank(), text.size()) + text;
  std::size_t piece = 0;
  for (std::size_t at = 0; at < whole.size(); at += Store::kMaxValue) {
    RODA_RETURN_IF_ERROR(store.put(result_key(prefix, piece++), std::string_view(whole).substr(at, Store::kMaxValue)));
  }
  return {};
}

Status receive(Store& store, int size, const std::string& prefix, Deadline deadline, std::string* text) {
  std::string whole;
  Status status = store.wait(result_key(prefix, 0), deadline + kVerdict, &whole);
  if (status.code() == RODA_ERR_TIMEOUT && status.rank() < 0) {
    // The rank that holds rank 0 up is to blame; rank 0 itself only when nobody does.
    if (const int rank = store.first_missing(report_key(prefix), size); rank > 0) return missing(rank, size, prefix);
    return Status(RODA_ERR_TIMEOUT,
                  roda::format("rank 0 has published no result of '{}' in time; if ranks only start late, raise "
                               "HOROVOD_GLOO_TIMEOUT_SECONDS",
                               prefix),
                  0);
  }
  RODA_RETURN_IF_ERROR(status);
  int code = 0;
  int origin = -1;
  std::size_t length = 0;
  std::istringstream header(whole.substr(0, whole.find('\n')));
  if (!(header >> code >> origin >> length)) return Status::unknown("a malformed result of '" + prefix + "'");
  std::string body = whole.substr(whole.find('\n') + 1);
  for (std::size_t piece = 1; body.size() < length; ++piece) {
    RODA_RETURN_IF_ERROR(store.wait(result_key(prefix, piece), deadline, &whole));
    body += whole;
  }
  if (code != RODA_OK) return Status(code, std::move(body), origin);
  *text = std::move(body);
  return {};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Lines of `theirs` that `common` lacks, each with what stands there instead, and whose that is.
std::string differences(const std::string& common, const std::string& whose, const std::string& theirs) {
  std::vector<std::string> expected = lines_of(common);
  std::vector<std::string> found = lines_of(theirs);
  std::string out;
  for (const std::string& line : found) {
    if (std::ranges::find(expected, line) != expected.end()) continue;
    std::string name = line.substr(0, line.find('=') + 1);
    auto instead =
        std::ranges::find_if(expected, [&](const std::string& e) { return !name.empty() && e.starts_with(name); });
    std::string other = instead == expected.end() ? "nothing" : instead->substr(name.size());
    out += roda::format("{}{} ({}: {})", out.empty() ? "" : ", ", line, whose, other.empty() ? "empty" : other);
  }
  return out.empty() ? "lines are missing" : out;
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 16;
  std::string out = ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) out += roda::format("{}{}", i ? ", " : "", ranks[i]);
  if (ranks.size() > kShown) out += roda::format(" and {} more", ranks.size() - kShown);
  return out;
}

Status compare(const std::vector<std::string>& all) {
  std::map<std::string, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < all.size(); ++rank) groups[all[rank]].push_back(static_cast<int>(rank));
  if (groups.size() == 1) return {};
  // The largest group is right; of equal ones that with the lowest rank.
  auto right = std::ranges::max_element(groups, [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second[0] > b.second[0];
  });
  std::string text = "the ranks do not agree:";
  int origin = -1;
  for (const auto& [theirs, ranks] : groups) {
    if (theirs == right->first) continue;
    if (origin < 0 || ranks[0] < origin) origin = ranks[0];
    // As many on either side: nobody is the odd one.
    const std::string whose = ranks.size() < right->second.size() ? "others" : ranks_text(right->second);
    text += roda::format(" {}: {};", ranks_text(ranks), differences(right->first, whose, theirs));
  }
  text.pop_back();
  return Status(RODA_ERR_PRECONDITION, std::move(text), origin);
}

}  // namespace

Status gather(Store& store, int rank, int size, const std::string& prefix, const std::string& mine, Deadline deadline,
              const std::function<Status(const std::vector<std::string>& all, std::string* result)>& combine,
              std::string* result) {
  RODA_RETURN_IF_ERROR(store.give(report_key(prefix), rank, mine));
  if (rank != 0) return receive(store, size, prefix, deadline, result);
  std::vector<std::string> all;
  std::string combined;
  Status status = collect(store, size, prefix, deadline, &all);
  if (status.ok()) status = combine(all, &combined);
  Status published = publish(store, prefix, status, status.ok() ? combined : status.message());
  RODA_RETURN_IF_ERROR(status);
  RODA_RETURN_IF_ERROR(published);
  *result = std::move(combined);
  return {};
}

Status check_agreement(Store& store, int rank, int size, const std::string& prefix, const std::string& text,
                       Deadline deadline) {
  std::string ignored;
  return gather(
      store, rank, size, prefix, text, deadline,
      [](const std::vector<std::string>& all, std::string*) { return compare(all); }, &ignored);
}

StoreExchange::~StoreExchange() {
  if (is_forked_child()) return;
  const MutexLock lock(mutex_);
  for (const std::string& name : used_) static_cast<void>(store_.release(name, size_));
}

void StoreExchange::note(const std::string& name, bool is_used) {
  const MutexLock lock(mutex_);
  if (is_used) used_.insert(name);
  if (!is_used) used_.erase(name);
}

roda_exchange StoreExchange::table() {
  return {sizeof(roda_exchange), RODA_EXCHANGE_ALL, this, &StoreExchange::put, &StoreExchange::get};
}

int32_t StoreExchange::put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
  auto* exchange = static_cast<StoreExchange*>(self);
  std::string_view text(static_cast<const char*>(value), bytes);
  exchange->note(exchange->key(key), true);
  return exchange->store_.give(exchange->key(key), exchange->rank_, text).to(error);
}

int32_t StoreExchange::get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error) {
  auto* exchange = static_cast<StoreExchange*>(self);
  const std::string name = exchange->key(key);
  if (rank == RODA_OF_ALL) return exchange->get_all(name, static_cast<char*>(value), *bytes, error);
  if (rank == RODA_OF_MISSING) {
    const std::int32_t missing = exchange->store_.first_missing(name, exchange->size_);
    std::memcpy(value, &missing, sizeof missing);
    return RODA_OK;
  }
  std::string text;
  bool found = false;
  Status status = exchange->store_.take(name, rank, &text, &found);
  if (!status.ok()) return status.to(error);
  if (!found) return RODA_IN_PROGRESS;
  exchange->note(name, true);
  if (text.size() > *bytes) {
    return Status::invalid(roda::format("the value of '{}' of member {} has {} bytes; there is room for {}", name, rank,
                                        text.size(), *bytes))
        .to(error);
  }
  std::memcpy(value, text.data(), text.size());
  *bytes = text.size();
  return RODA_OK;
}

int32_t StoreExchange::get_all(const std::string& name, char* values, size_t bytes, roda_error* error) {
  std::vector<std::string> all;
  bool found = false;
  Status status = store_.take_all(name, size_, &all, &found);
  if (!status.ok()) return status.to(error);
  if (!found) return RODA_IN_PROGRESS;
  note(name, false);
  const std::size_t each = bytes / all.size();
  for (std::size_t member = 0; member < all.size(); ++member) {
    if (all[member].size() != each) {
      return Status(RODA_ERR_PRECONDITION,
                    roda::format("member {} of the group published {} bytes under '{}' where {} were expected: its "
                                 "plugin differs",
                                 member, all[member].size(), name, each))
          .to(error);
    }
    std::copy_n(all[member].data(), each, values + member * each);
  }
  return RODA_OK;
}

}  // namespace roda
