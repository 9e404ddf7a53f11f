// The out-of-band exchange that a transport's group forms over, made from a store.
#pragma once

#include <roda/abi/exchange.h>

#include <string>

#include "core/bootstrap/store.h"

namespace roda {

// Every key is a gathering "<prefix>/<key>"; the prefix is unique per group and generation. Any thread. The store and
// this object outlive the table's users.
class StoreExchange {
 public:
  StoreExchange(Store& store, std::string prefix, int group_rank, int group_size)
      : store_(store), prefix_(std::move(prefix)), rank_(group_rank), size_(group_size) {}
  StoreExchange(const StoreExchange&) = delete;
  StoreExchange& operator=(const StoreExchange&) = delete;

  roda_exchange table();

 private:
  std::string key(const char* name) const { return prefix_ + '/' + name; }
  static int32_t put(void* self, const char* key, const void* value, size_t bytes, roda_error* error);
  static int32_t get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error);
  int32_t get_all(const std::string& name, char* values, size_t bytes, roda_error* error);

  Store& store_;
  std::string prefix_;
  int rank_;
  int size_;
};

}  // namespace roda
