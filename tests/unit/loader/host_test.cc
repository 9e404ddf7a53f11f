#include "plugins/loader/host.h"

#include <gtest/gtest.h>

#include <cstring>
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

TEST(Host, PassesLogAndKnobsOn) {
  std::string logged;
  Host host(
      {[&](int level, const char* component, const char* text) { logged = std::to_string(level) + component + text; },
       [](const char* name) { return std::strcmp(name, "A") == 0 ? "value" : nullptr; }, nullptr});
  const roda_host* table = host.table();
  EXPECT_EQ(table->struct_size, sizeof(roda_host));
  EXPECT_EQ(table->abi_version, RODA_ABI_VERSION);
  table->log(table->self, RODA_LOG_ERROR, "gloo", " broke");
  EXPECT_EQ(logged, "4gloo broke");
  EXPECT_STREQ(table->knob(table->self, "A"), "value");
  EXPECT_EQ(table->knob(table->self, "B"), nullptr);
}

TEST(Host, UsesTheDevicesKernels) {
  roda_device device{};
  device.reduce = add_floats;
  device.copy = copy_backwards;
  Host host({nullptr, nullptr, &device});
  const roda_host* table = host.table();
  float a[2] = {1, 2}, b[2] = {3, 4}, c[2] = {};
  EXPECT_EQ(table->reduce(table->self, c, a, b, 2, RODA_FLOAT32, RODA_SUM), RODA_OK);
  EXPECT_EQ(c[1], 6);
  EXPECT_EQ(table->reduce(table->self, c, a, b, 2, RODA_INT32, RODA_SUM), RODA_ERR_UNSUPPORTED);
  table->copy(table->self, c, a, sizeof a);
  EXPECT_EQ(c[1], 2);
}

TEST(Host, WorksWithNothingBehindIt) {
  Host host({});
  const roda_host* table = host.table();
  char a[3] = "hi", b[3] = {};
  table->log(table->self, RODA_LOG_INFO, "x", "y");
  EXPECT_EQ(table->knob(table->self, "A"), nullptr);
  EXPECT_EQ(table->reduce(table->self, b, a, a, 3, RODA_INT8, RODA_SUM), RODA_ERR_UNSUPPORTED);
  table->copy(table->self, b, a, sizeof a);
  EXPECT_STREQ(b, "hi");
}

}  // namespace
}  // namespace roda::plugins
