#include "core/bootstrap/store_wire.h"

#include <algorithm>
#include <sstream>

#include "plugins/base/format.h"

namespace roda::store_wire {
namespace {

constexpr std::size_t kRequestHeader = 7;
constexpr std::size_t kResponseHeader = 5;
constexpr std::uint32_t kUneven = UINT32_MAX;  // lengths of a gathering's values

template <typename Out, typename T>
void append(Out& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<typename Out::value_type>(value >> (8 * i)));
}

void append_text(std::vector<std::uint8_t>& out, std::string_view text) {
  out.insert(out.end(), text.begin(), text.end());
}

std::uint32_t load32(const std::uint8_t* at) {
  return at[0] | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24;
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

std::vector<std::uint8_t> encode(const Request& request) {
  std::vector<std::uint8_t> out;
  out.reserve(kRequestHeader + request.key.size() + request.value.size());
  append(out, static_cast<std::uint8_t>(request.op));
  append(out, request.id);
  append(out, static_cast<std::uint16_t>(request.key.size()));
  append_text(out, request.key);
  append_text(out, request.value);
  return out;
}

std::vector<std::uint8_t> encode(const Response& response) {
  std::vector<std::uint8_t> out;
  out.reserve(kResponseHeader + response.value.size());
  append(out, response.id);
  append(out, static_cast<std::uint8_t>(response.outcome));
  append_text(out, response.value);
  return out;
}

std::optional<Request> parse_request(Bytes frame) {
  if (frame.size() < kRequestHeader) return std::nullopt;
  if (frame[0] < static_cast<int>(Op::kPut) || frame[0] > static_cast<int>(Op::kRelease)) return std::nullopt;
  std::size_t key_length = frame[5] | std::size_t{frame[6]} << 8;
  if (key_length > frame.size() - kRequestHeader) return std::nullopt;
  Bytes rest = frame.subspan(kRequestHeader);
  Request request{static_cast<Op>(frame[0]), load32(&frame[1]), text_of(rest.first(key_length)),
                  text_of(rest.subspan(key_length))};
  if (!check_sizes(request.key, request.value).ok()) return std::nullopt;
  if (request.op == Op::kGet && !request.value.empty()) return std::nullopt;
  return request;
}

std::optional<Response> parse_response(Bytes frame) {
  if (frame.size() < kResponseHeader || frame[4] > static_cast<int>(Outcome::kFailed)) return std::nullopt;
  return Response{load32(frame.data()), static_cast<Outcome>(frame[4]), text_of(frame.subspan(kResponseHeader))};
}

std::string text_of(const Status& failure) {
  return roda::format("{} {} ", failure.code(), failure.rank()) + failure.message().substr(0, Store::kMaxValue / 2);
}

Status failure_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  int code = 0, rank = -1;
  if (!(in >> code >> rank) || code >= 0) return Status::unknown("a malformed report of a failure");
  std::string message;
  std::getline(in.ignore(1), message, '\0');
  return {code, std::move(message), rank};
}

std::string text_of(const std::map<int, std::string>& values) {
  const std::size_t each = values.empty() ? 0 : values.begin()->second.size();
  const bool is_even = std::ranges::all_of(values, [each](const auto& entry) { return entry.second.size() == each; });
  std::uint64_t bytes = 4;
  for (const auto& [rank, value] : values) bytes += (is_even ? 0 : 4) + value.size();
  std::string out;
  out.reserve(8 + bytes);
  append(out, bytes);
  append(out, is_even ? static_cast<std::uint32_t>(each) : kUneven);
  for (const auto& [rank, value] : values) {
    if (!is_even) append(out, static_cast<std::uint32_t>(value.size()));
    out += value;
  }
  return out;
}

std::size_t whole_length(std::string_view text) {
  if (text.size() < 8) return 0;
  const auto* at = reinterpret_cast<const std::uint8_t*>(text.data());
  return 8 + (load32(at) | std::size_t{load32(at + 4)} << 32);
}

bool values_of(std::string_view text, int count, std::vector<std::string>* values) {
  values->clear();
  const auto take_length = [&text](std::uint32_t* length) {
    if (text.size() < 4) return false;
    *length = load32(reinterpret_cast<const std::uint8_t*>(text.data()));
    text.remove_prefix(4);
    return true;
  };
  text.remove_prefix(std::min<std::size_t>(text.size(), 8));
  std::uint32_t each = 0;
  if (!take_length(&each)) return false;
  for (int rank = 0; rank < count; ++rank) {
    std::uint32_t length = each;
    if ((each == kUneven && !take_length(&length)) || length > text.size()) return false;
    values->emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return text.empty();
}

}  // namespace roda::store_wire
