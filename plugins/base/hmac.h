// HMAC-SHA256, random bytes and a comparison whose time says nothing. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "plugins/base/status.h"

namespace roda {

using Bytes = std::span<const std::uint8_t>;
using Digest = std::array<std::uint8_t, 32>;

inline Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Over the concatenation of the parts.
Status hmac_sha256(Bytes key, std::initializer_list<Bytes> parts, Digest* digest);
bool equal_constant_time(Bytes a, Bytes b);
// From the kernel's generator.
Status fill_random(std::span<std::uint8_t> bytes);
// 32 hexadecimal digits, for names that nobody else has.
std::string random_name();

}  // namespace roda
