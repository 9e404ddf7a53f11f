// FNV-1a: equal on every machine, which std::hash is not. No protection against somebody who looks for collisions.
#pragma once

#include <cstdint>
#include <string_view>

namespace roda {

class Hash {
 public:
  void add(std::uint64_t value) { value_ = (value_ ^ value) * 0x100000001b3u; }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace roda
