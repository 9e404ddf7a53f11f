#include "plugins/conformance/buffer.h"

#include <utility>

#include "plugins/conformance/kit.h"

namespace roda::conformance {

Buffer::Buffer(const Placement& placement, std::vector<char> data) : placement_(placement), host_(std::move(data)) {
  if (placement_.device == nullptr) return;
  roda_error error = make_error();
  memory_.struct_size = sizeof memory_;
  const int32_t allocated = placement_.device->alloc(placement_.number, host_.size(), &memory_, &error);
  CHECK(allocated == RODA_OK, "%zu bytes on device %d: %s", host_.size(), placement_.number, error.message);
  if (host_.empty()) return;
  const int32_t copied = placement_.device->copy(memory_.address, host_.data(), host_.size(), nullptr, &error);
  CHECK(copied == RODA_OK, "a copy to device %d: %s", placement_.number, error.message);
}

Buffer::Buffer(Buffer&& other) noexcept
    : placement_(other.placement_), host_(std::move(other.host_)), memory_(std::exchange(other.memory_, {})) {}

Buffer::~Buffer() {
  if (memory_.owner != nullptr) placement_.device->free(&memory_);
}

const std::vector<char>& Buffer::read() {
  if (placement_.device == nullptr || host_.empty()) return host_;
  roda_error error = make_error();
  const int32_t copied = placement_.device->copy(host_.data(), memory_.address, host_.size(), nullptr, &error);
  CHECK(copied == RODA_OK, "a copy from device %d: %s", placement_.number, error.message);
  return host_;
}

}  // namespace roda::conformance
