// The frames between a store's client and server. Integers are little-endian.
//   request:  op(1) id(4) key_length(2) key value
//   response: id(4) outcome(1) value or error text
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/store.h"
#include "plugins/base/hmac.h"

namespace roda::store_wire {

inline constexpr std::uint16_t kService = 1;  // in the handshake
inline constexpr std::size_t kMaxFrame = 7 + Store::kMaxKey + Store::kMaxValue;

// The value of kEnter is the rank; that of kLeave is empty, or tells of a failure.
enum class Op : std::uint8_t { kPut = 1, kGet = 2, kRemove = 3, kClear = 4, kPutIfAbsent = 5, kEnter = 6, kLeave = 7 };
// kFailed: the value will not come, for the failure that the answer tells of.
enum class Outcome : std::uint8_t { kValue = 0, kError = 1, kFailed = 2 };

// Views into the frame it was parsed from.
struct Request {
  Op op;
  std::uint32_t id;  // of a kGet; the others are not answered unless they fail
  std::string_view key;
  std::string_view value;
};
struct Response {
  std::uint32_t id;
  Outcome outcome;
  std::string_view value;
};

std::vector<std::uint8_t> encode(const Request& request);
std::vector<std::uint8_t> encode(const Response& response);
// Empty for anything that is not a well-formed message within the bounds.
std::optional<Request> parse_request(Bytes frame);
std::optional<Response> parse_response(Bytes frame);

// A failure in a value: code, rank and message.
std::string text_of(const Status& failure);
Status failure_of(std::string_view text);

}  // namespace roda::store_wire
