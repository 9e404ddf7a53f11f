#include "core/launch/wire_memory.h"

#include "plugins/base/hash.h"

namespace roda::engine {

execute::WireTensor WireMemory::next(const std::string& name, std::size_t begin) {
  if (seeds_.size() >= kMostNames) seeds_.clear();
  const auto [found, is_new] = seeds_.try_emplace(name);
  if (is_new) {
    Hash hash;
    hash.add(std::string_view(name));
    found->second = hash.value();
  }
  found->second += 0x9e3779b97f4a7c15u;
  return {begin, found->second};
}

}  // namespace roda::engine
