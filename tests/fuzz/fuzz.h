// What every fuzz target is made of: one function that libFuzzer calls, and well-formed inputs to begin with. A target
// may do with an input whatever it likes but crash, read what isn't its own, or take memory without bound.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Of each target.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace roda::fuzz {

// Of each target: what its reader takes, made by the product's own writer where there is one.
std::vector<std::string> seeds();

// Ends the process, so that libFuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Takes an input apart from its front. Beyond the end there are zeros and nothing.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  explicit operator bool() const { return !rest_.empty(); }

  template <typename T>
  T number() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, rest_.size());
    if (bytes > 0) std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  std::span<const std::uint8_t> bytes(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  // As chunk() writes it.
  std::span<const std::uint8_t> chunk() { return bytes(number<std::uint16_t>()); }
  std::string_view rest() {
    const auto all = bytes(rest_.size());
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

template <typename T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string chunk(std::string_view bytes) {
  return number(static_cast<std::uint16_t>(bytes.size())) + std::string(bytes);
}

}  // namespace roda::fuzz
