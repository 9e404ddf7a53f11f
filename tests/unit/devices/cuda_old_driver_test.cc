// A driver that can't take the kernels, by the double: buckets travel by plain copies, and what needs a kernel says
// why.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <string>

#include "plugins/devices/cuda/cuda_device.h"

namespace {

const char* knob(void*, const char* name) {
  return std::string(name) == "RODA_TEST_CUDA_LIBRARY" ? ::getenv("RODA_TEST_CUDA_LIBRARY") : nullptr;
}

TEST(CudaOldDriver, CopiesInsteadAndSaysWhy) {
  ::setenv("RODA_CUDA_DOUBLE_MODULE_ERROR", "222", 1);
  ::setenv("RODA_CUDA_DOUBLE_VERSION", "12020", 1);
  const roda_device& device = *roda_cuda_device();
  roda_host host{};
  host.struct_size = sizeof host;
  host.knob = knob;
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(device.probe(&host, &error), RODA_OK) << error.message;
  roda_memory memory{};
  ASSERT_EQ(device.alloc(0, 100, &memory, &error), RODA_OK) << error.message;
  auto* data = static_cast<char*>(memory.address);
  ASSERT_EQ(device.copy(data, "abcdefghij", 10, nullptr, &error), RODA_OK) << error.message;
  const roda_pack_item items[2] = {{data, 5, 5}, {data + 5, 0, 5}};
  ASSERT_EQ(device.pack(data + 50, items, 2, nullptr, &error), RODA_OK) << error.message;
  char packed[11] = {};
  ASSERT_EQ(device.copy(packed, data + 50, 10, nullptr, &error), RODA_OK) << error.message;
  EXPECT_STREQ(packed, "fghijabcde");
  EXPECT_EQ(device.scale(data, 2, RODA_FLOAT32, 2.0, nullptr, &error), RODA_ERR_UNSUPPORTED);
  EXPECT_NE(std::strstr(error.message, "serves CUDA 12.2 at most: update the driver"), nullptr) << error.message;
  device.free(&memory);
}

}  // namespace
