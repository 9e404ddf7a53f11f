// The job's secret in memory: copies are wiped when they go.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace roda {

class Secret {
 public:
  static constexpr std::size_t kMinBytes = 16;
  static constexpr std::size_t kMaxBytes = 4096;

  Secret() = default;
  explicit Secret(std::span<const std::uint8_t> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret other) noexcept {
    bytes_.swap(other.bytes_);
    return *this;
  }
  ~Secret() {
    if (!bytes_.empty()) explicit_bzero(bytes_.data(), bytes_.size());
  }

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  bool is_long_enough() const { return bytes_.size() >= kMinBytes && bytes_.size() <= kMaxBytes; }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace roda
