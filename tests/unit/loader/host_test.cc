#include "plugins/loader/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace roda::plugins {
namespace {

int32_t add_floats(void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op, void*,
                   roda_error*) {
  if (dtype != RODA_FLOAT32 || op != RODA_SUM) return RODA_ERR_UNSUPPORTED;
  for (size_t i = 0; i < count; ++i) {
    static_cast<float*>(dst)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
  }
  return RODA_OK;
}

int32_t copy_backwards(void* dst, const void* src, size_t bytes, void*, roda_error*) {
  for (size_t i = bytes; i-- > 0;) static_cast<char*>(dst)[i] = static_cast<const char*>(src)[i];
  return RODA_OK;
}

TEST(Host, PassesLogAndSettingsOn) {
  std::string logged;
  ::setenv("RODA_TEST_A", "value", 1);
  Host host(
      [&](int level, const char* component, const char* text) { logged = std::to_string(level) + component + text; },
      nullptr);
  const roda_host* table = host.table();
  EXPECT_EQ(table->struct_size, sizeof(roda_host));
  EXPECT_EQ(table->abi_version, RODA_ABI_VERSION);
  table->log(table->self, RODA_LOG_ERROR, "gloo", " broke");
  EXPECT_EQ(logged, "4gloo broke");
  EXPECT_STREQ(table->knob(table->self, "RODA_TEST_A"), "value");
  EXPECT_EQ(table->knob(table->self, "RODA_TEST_B"), nullptr);
}

TEST(Host, UsesTheDevicesKernels) {
  roda_device device{};
  device.reduce = add_floats;
  device.copy = copy_backwards;
  Host host(nullptr, &device);
  const roda_host* table = host.table();
  float a[2] = {1, 2}, b[2] = {3, 4}, c[2] = {};
  EXPECT_EQ(table->reduce(table->self, c, a, b, 2, RODA_FLOAT32, RODA_SUM), RODA_OK);
  EXPECT_EQ(c[1], 6);
  EXPECT_EQ(table->reduce(table->self, c, a, b, 2, RODA_INT32, RODA_SUM), RODA_ERR_UNSUPPORTED);
  table->copy(table->self, c, a, sizeof a);
  EXPECT_EQ(c[1], 2);
}

}  // namespace
}  // namespace roda::plugins
