#include "core/negotiate/bucket.h"

#include <gtest/gtest.h>

namespace roda::negotiate {
namespace {

AgreedPtr tensor(const std::string& name, std::int64_t elements, int dtype = RODA_FLOAT32,
                 int collective = RODA_ALLREDUCE) {
  auto a = std::make_shared<Agreed>();
  a->name = name;
  a->rows = {elements, elements};
  a->dtype = dtype;
  a->collective = collective;
  return a;
}

std::string names(const std::vector<AgreedPtr>& bucket) {
  std::string text;
  for (const auto& t : bucket) text += t->name;
  return text;
}

TEST(Bucket, TakesAlikeTensorsPastOthers) {
  std::deque<AgreedPtr> ready{tensor("a", 8), tensor("b", 8, RODA_INT32), tensor("c", 8),
                              tensor("d", 8, RODA_FLOAT32, RODA_BROADCAST), tensor("e", 8)};
  EXPECT_EQ(names(take_bucket(&ready, 1 << 20, 1 << 16)), "ace");
  EXPECT_EQ(names(take_bucket(&ready, 1 << 20, 1 << 16)), "b");
  EXPECT_EQ(names(take_bucket(&ready, 1 << 20, 1 << 16)), "d");
  EXPECT_TRUE(ready.empty());
}

TEST(Bucket, StopsAtTheThreshold) {
  std::deque<AgreedPtr> ready{tensor("a", 100), tensor("b", 100), tensor("c", 300), tensor("d", 50)};
  EXPECT_EQ(names(take_bucket(&ready, 1000, 1 << 16)), "abd");
  EXPECT_EQ(names(take_bucket(&ready, 1000, 1 << 16)), "c");
}

TEST(Bucket, LargeTensorsTravelAlone) {
  std::deque<AgreedPtr> ready{tensor("L", 1000), tensor("a", 10), tensor("b", 10)};
  EXPECT_EQ(names(take_bucket(&ready, 1 << 20, 400)), "L");
  EXPECT_EQ(names(take_bucket(&ready, 1 << 20, 400)), "ab");
}

TEST(Bucket, ThresholdZeroFusesNothing) {
  std::deque<AgreedPtr> ready{tensor("a", 10), tensor("b", 10)};
  EXPECT_EQ(names(take_bucket(&ready, 0, 400)), "a");
}

}  // namespace
}  // namespace roda::negotiate
