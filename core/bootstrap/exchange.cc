#include "core/bootstrap/exchange.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "plugins/base/format.h"

namespace roda {

roda_exchange StoreExchange::table() {
  return {sizeof(roda_exchange), RODA_EXCHANGE_ALL, this, &StoreExchange::put, &StoreExchange::get};
}

int32_t StoreExchange::put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
  auto* exchange = static_cast<StoreExchange*>(self);
  std::string_view text(static_cast<const char*>(value), bytes);
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
