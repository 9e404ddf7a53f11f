// The two structs of the DLPack exchange format (version 0.x, layout fixed by its specification) that hand a tensor to
// a framework without a copy.
#pragma once

#include <cstdint>

namespace roda::python {

enum class DLDeviceType : std::int32_t { kCpu = 1, kCuda = 2 };

struct DLDevice {
  DLDeviceType type;
  std::int32_t id;
};

struct DLDataType {
  std::uint8_t code;  // as RODA_DTYPES has it
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // nullptr: row-major and dense
  std::uint64_t byte_offset;
};

// The consumer calls `deleter` once when it is done, from any thread and without the interpreter's lock.
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor* self);
};

}  // namespace roda::python
