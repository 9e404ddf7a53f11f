// One round over a store: every rank says something, rank 0 makes one result of it, every rank gets that.
#pragma once

#include <roda/abi/exchange.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"

namespace roda {

// `combine` runs on rank 0 only, with the texts by rank. An error that rank 0 meets (its own, combine's, or a rank that
// stays away) becomes every rank's error. The result may have any size; `mine` is at most Store::kMaxValue. Blocks.
// Keys stay below "<prefix>/"; a prefix is used once per store.
Status gather(Store& store, int rank, int size, const std::string& prefix, const std::string& mine, Deadline deadline,
              const std::function<Status(const std::vector<std::string>& all, std::string* result)>& combine,
              std::string* result);

// Every rank gives the same text, or every rank gets an error that names the odd ranks (those outside the largest
// group) and the lines ("NAME=value") that differ.
Status check_agreement(Store& store, int rank, int size, const std::string& prefix, const std::string& text,
                       Deadline deadline);

// The out-of-band exchange that a transport's group forms over, made from a store.
// Every key is a gathering "<prefix>/<key>"; the prefix is unique per group and generation. Any thread. The store and
// this object outlive the table's users; with the last member's the store forgets the group's keys.
class StoreExchange {
 public:
  StoreExchange(Store& store, std::string prefix, int group_rank, int group_size)
      : store_(store), prefix_(std::move(prefix)), rank_(group_rank), size_(group_size) {}
  ~StoreExchange();
  StoreExchange(const StoreExchange&) = delete;
  StoreExchange& operator=(const StoreExchange&) = delete;

  roda_exchange table();

 private:
  std::string key(const char* name) const { return prefix_ + '/' + name; }
  static int32_t put(void* self, const char* key, const void* value, size_t bytes, roda_error* error);
  static int32_t get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error);
  int32_t get_all(const std::string& name, char* values, size_t bytes, roda_error* error);
  void note(const std::string& name, bool is_used);

  Store& store_;
  std::string prefix_;
  int rank_;
  int size_;
  Mutex mutex_;
  std::set<std::string> used_ RODA_GUARDED_BY(mutex_);  // keys of which this member did not take all values
};

}  // namespace roda
