// In every rank of a job over RDMA: a link goes down while a collective runs. RODA_TEST_VM_LINK is its network
// interface, RODA_TEST_VM_PORT what its port is called in errors.
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

TEST(Link, GoesDownInMidCollective) {
  ASSERT_FALSE(setting("RODA_TEST_VM_LINK").empty());
  std::vector<float> data(1u << 20, 1);
  const std::vector<std::int64_t> shape{1 << 20};
  Outcome o = run(make_op(RODA_ALLREDUCE, "loop", shape, data.data(), data.data()));
  ASSERT_EQ(o.code, RODA_OK) << o.message;

  std::thread breaker;
  if (rank() == 0) {
    breaker = std::thread(
        [] { EXPECT_EQ(std::system(("ip link set " + setting("RODA_TEST_VM_LINK") + " down").c_str()), 0); });
  }
  for (int i = 0; i < 2000 && o.code == RODA_OK; ++i) {
    o = run(make_op(RODA_ALLREDUCE, "loop", shape, data.data(), data.data()));
  }
  if (breaker.joinable()) breaker.join();
  EXPECT_LT(o.code, 0);
  EXPECT_NE(o.message.find(setting("RODA_TEST_VM_PORT")), std::string::npos) << o.message;
  EXPECT_NE(o.message.find("rank"), std::string::npos) << o.message;
}

}  // namespace
}  // namespace roda::test
