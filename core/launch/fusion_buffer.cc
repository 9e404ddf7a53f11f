#include "core/launch/fusion_buffer.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

namespace roda::engine {
Status FusionBuffer::ensure(const execute::DeviceQueue& queue, execute::TransportGroup* group, std::size_t bytes) {
  // Powers of two, so that buckets of many sizes are served by few allocations.
  const std::size_t length = std::bit_ceil(std::max(bytes, std::size_t{64} << 10));
  is_on_device_ = !queue.is_host();
  if (is_on_device_) {
    return on_device_.reserve(queue, execute::DeviceMemory::Place::kDevice, length);
  }
  const bool from_group = group != nullptr && group->context().has(RODA_CAP_ALLOCATE);
  const bool same_source = from_group ? group_ == group : group_ == nullptr;
  if (memory_.address != nullptr && same_source && memory_.length >= bytes) return {};
  release();
  return ensure_host(from_group ? group : nullptr, length);
}

Status FusionBuffer::ensure_host(execute::TransportGroup* group, std::size_t length) {
  if (group != nullptr) {
    RODA_RETURN_IF_ERROR(group->allocate(length, &memory_));
    group_ = group;
    return {};
  }
  memory_ = roda_memory{};
  memory_.struct_size = sizeof memory_;
  memory_.device = -1;
  memory_.length = length;
  memory_.address = std::aligned_alloc(4096, length);
  if (memory_.address == nullptr) {
    return Status::no_memory("No memory for a fusion buffer of " + std::to_string(length) +
                             " bytes; lower HOROVOD_FUSION_THRESHOLD");
  }
  return {};
}

void FusionBuffer::release() {
  on_device_.release();
  is_on_device_ = false;
  if (memory_.address == nullptr) return;
  if (group_ != nullptr) {
    group_->free(&memory_);
  } else {
    std::free(memory_.address);
  }
  group_ = nullptr;
  memory_ = roda_memory{};
}

}  // namespace roda::engine
