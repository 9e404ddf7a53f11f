// The frames between a store's client and server. Integers are little-endian.
//   request:  op(1) id(4) key_length(2) key value
//   response: id(4) outcome(1) value or error text
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/store.h"
#include "plugins/base/hmac.h"

namespace roda::store_wire {

inline constexpr std::uint16_t kService = 1;  // in the handshake
inline constexpr std::size_t kMaxFrame = 7 + Store::kMaxKey + Store::kMaxValue;

// The value of kEnter and kTake is the rank; that of kLeave is empty, or tells of a failure; that of kTakeAll is the
// number of ranks and the offset in their text where the answer begins, which is as much as a frame takes; that of
// kMissing is the number of ranks, and its answer comes at once; that of kRelease is the number of ranks.
using Op = StoreOp;
// kFailed: the value will not come, for the failure that the answer tells of.
enum class Outcome : std::uint8_t { kValue = 0, kError = 1, kFailed = 2 };

// Views into the frame it was parsed from.
struct Request {
  Op op;
  std::uint32_t
      id;  // of kGet, kTake, kTakeAll and kMissing; the others are not answered unless they fail. kGive: the rank
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

// The values of a gathering: the length of what follows, u64; the length of each, u32, and all of them; where lengths
// differ UINT32_MAX, and each value behind its length, u32.
std::string text_of(const std::map<int, std::string>& values);
// The length of the whole text, of which the beginning is given; 0 while that is too short to tell.
std::size_t whole_length(std::string_view text);
// False: the text is not that of so many values.
bool values_of(std::string_view text, int count, std::vector<std::string>* values);

}  // namespace roda::store_wire
