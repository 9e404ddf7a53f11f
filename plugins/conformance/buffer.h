// Data of a case in the kind of memory under test: the host's, or a device's.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <vector>

namespace roda::conformance {

// Where a rank's data lie.
struct Placement {
  const roda_device* device = nullptr;  // null: host memory
  int number = 0;                       // of the device, for this rank

  int memory_kind() const { return device == nullptr ? int{RODA_MEMORY_HOST} : device->memory_kind; }
};

// A range that begins as a copy of some bytes. One thread at a time; throws CaseFailure.
class Buffer {
 public:
  Buffer(const Placement& placement, std::vector<char> data);
  Buffer(const Placement& placement, std::size_t bytes, char fill = 'x')
      : Buffer(placement, std::vector<char>(bytes, fill)) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return placement_.device == nullptr ? host_.data() : static_cast<char*>(memory_.address); }
  std::size_t size() const { return host_.size(); }
  // What it lies in; null: plain host memory.
  roda_memory* memory() { return placement_.device == nullptr ? nullptr : &memory_; }
  // What is in it now.
  const std::vector<char>& read();

 private:
  Placement placement_;
  std::vector<char> host_;  // the range itself, or the last copy that was read
  roda_memory memory_{};
};

}  // namespace roda::conformance
