// When points of the program's streams are marked, over a device of the test's own that writes down what it is asked.
#include "core/submit/producers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roda::engine {
namespace {

std::vector<std::string> told;
int stream_a, stream_b, engines;

const roda_device& device() {
  static const roda_device table = [] {
    roda_device made{};
    made.event_record_on = [](std::int32_t, void* stream, void** event, roda_error*) -> std::int32_t {
      told.push_back(stream == &stream_a ? "mark a" : "mark b");
      *event = stream;
      return RODA_OK;
    };
    made.event_wait = [](void* stream, void* event, roda_error*) -> std::int32_t {
      told.push_back(stream == &engines && event == &stream_a ? "hold for a" : "hold");
      return RODA_OK;
    };
    made.event_release = [](void*) {};
    return made;
  }();
  return table;
}

class ProducersTest : public ::testing::Test {
 protected:
  ProducersTest() { told.clear(); }
  std::shared_ptr<Producer> add(std::size_t bytes, int* stream = &stream_a, bool may_wait = true, int kind = 1) {
    std::shared_ptr<Producer> made;
    EXPECT_TRUE(
        producers_.add({0, static_cast<std::uint64_t>(kind)}, {&device(), 0, stream}, bytes, may_wait, &made).ok());
    return made;
  }
  static negotiate::BucketRules rules() {
    negotiate::BucketRules made;
    made.threshold = 1000;
    made.complete = 400;
    return made;
  }
  Producers producers_{rules()};
};

using Told = std::vector<std::string>;

TEST_F(ProducersTest, OnePointForABucketAndOneForTheFirst) {
  add(8);
  EXPECT_EQ(told, Told{"mark a"});
  const auto first = add(100), second = add(200);
  EXPECT_EQ(first, second);
  EXPECT_EQ(told.size(), 1u);
  EXPECT_EQ(add(100), first) << "the one that completes the bucket";
  EXPECT_EQ(told.size(), 2u);
  EXPECT_NE(add(100), first);
  EXPECT_NE(add(401), first) << "a large one goes by itself";
  EXPECT_EQ(told.size(), 3u);
  EXPECT_TRUE(producers_.end({0, 1}).ok());
  EXPECT_EQ(told.size(), 4u) << "a thread waits: what is there so far";
  EXPECT_TRUE(producers_.end({0, 1}).ok());
  add(8);
  EXPECT_EQ(told.size(), 5u) << "first again";
}

TEST_F(ProducersTest, StreamsAndKindsHavePointsOfTheirOwn) {
  add(8);
  add(8, &stream_b);
  add(8, &stream_a, true, 2);
  EXPECT_EQ(told, (Told{"mark a", "mark b", "mark a"}));
  EXPECT_NE(add(8), add(8, &stream_b));
  EXPECT_NE(add(8), add(8, &stream_a, true, 2));
  EXPECT_EQ(told.size(), 3u);
}

TEST_F(ProducersTest, APointThatIsNeededIsMarkedOnce) {
  add(8);
  const auto waiting = add(8), now = add(8, &stream_a, false);
  EXPECT_EQ(told.size(), 2u);
  EXPECT_LT(waiting->number(), now->number());
  EXPECT_EQ(add(8), waiting);
  EXPECT_GT(waiting->number(), now->number()) << "the last of its tensors counts";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(waiting->hold(&engines).ok());
  EXPECT_EQ(told, (Told{"mark a", "mark a", "mark a", "hold for a", "hold for a"}));
}

}  // namespace
}  // namespace roda::engine
