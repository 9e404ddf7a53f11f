// Which GPUs' memory RDMA devices write to, over the DOUBLE of the CUDA driver; here there is no RDMA device that could
// refuse.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "transports/verbs/memory.h"

namespace roda::verbs {
namespace {

TEST(VerbsGpus, OnlyThoseThatSeeWhatWasWrittenAreReached) {
  roda_host host{};
  host.struct_size = sizeof host;
  host.knob = [](void*, const char* name) -> const char* { return ::getenv(name); };
  EXPECT_TRUE(reaches_gpu(&host, {}, 0));
  ::setenv("RODA_CUDA_DOUBLE_WRITES_ORDERING", "0", 1);
  EXPECT_FALSE(reaches_gpu(&host, {}, 1)) << "a kernel may run before the data are there";
}

}  // namespace
}  // namespace roda::verbs
