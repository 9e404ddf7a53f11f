#include "core/bootstrap/exchange.h"

#include <cstring>

#include "plugins/base/format.h"

namespace roda {

roda_exchange StoreExchange::table() {
  return {sizeof(roda_exchange), 0, this, &StoreExchange::put, &StoreExchange::get};
}

std::string StoreExchange::key(int rank, const char* name) const {
  return roda::format("{}/{}/{}", prefix_, rank, name);
}

int32_t StoreExchange::put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
  auto* exchange = static_cast<StoreExchange*>(self);
  std::string_view text(static_cast<const char*>(value), bytes);
  return exchange->store_.put(exchange->key(exchange->rank_, key), text).to(error);
}

int32_t StoreExchange::get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error) {
  auto* exchange = static_cast<StoreExchange*>(self);
  std::string name = exchange->key(rank, key);
  std::string text;
  bool found = false;
  Status status = exchange->store_.get(name, &text, &found);
  if (!status.ok()) return status.to(error);
  if (!found) return RODA_IN_PROGRESS;
  if (text.size() > *bytes) {
    return Status::invalid(
               roda::format("the value of '{}' has {} bytes; there is room for {}", name, text.size(), *bytes))
        .to(error);
  }
  std::memcpy(value, text.data(), text.size());
  *bytes = text.size();
  return RODA_OK;
}

}  // namespace roda
