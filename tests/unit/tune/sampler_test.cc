#include "core/tune/tuner.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace roda::tune {
namespace {

// A step of three buckets, a microsecond after one another, then nine of computing.
class ThreeBuckets {
 public:
  explicit ThreeBuckets(Sampler* sampler) : sampler_(sampler) {}

  std::vector<double> run(int steps) {
    std::vector<double> scores;
    for (; steps > 0; --steps) {
      for (int bucket = 0; bucket < 3; ++bucket) {
        now_ += bucket == 0 ? 10 : 1;
        for (int tensor = 0; tensor < 4; ++tensor) sampler_->add(std::to_string(bucket) + "." + std::to_string(tensor));
        if (const auto score = sampler_->end(100, now_)) scores.push_back(*score);
      }
    }
    return scores;
  }

 private:
  Sampler* sampler_;
  double now_ = 1000;
};

// A sample is whole steps, wherever in a step it begins: 300 bytes in 12 us.
TEST(Sampler, ScoresWholeSteps) {
  Sampler sampler(4);
  ThreeBuckets training(&sampler);
  EXPECT_EQ(training.run(5), std::vector<double>{});  // the first step is not measured
  EXPECT_EQ(training.run(8), (std::vector<double>{25, 25}));
}

TEST(Sampler, LeavesOutTheFirstStepOfNewSettings) {
  Sampler sampler(1);
  ThreeBuckets training(&sampler);
  EXPECT_EQ(training.run(3), (std::vector<double>{25}));
  sampler.restart();
  EXPECT_EQ(training.run(2), std::vector<double>{});
  EXPECT_EQ(training.run(1), (std::vector<double>{25}));
}

TEST(Sampler, MakesNoSampleOfNamesThatNeverComeAgain) {
  Sampler sampler(1);
  for (int i = 0; i < 200'000; ++i) {
    sampler.add("noname." + std::to_string(i));
    ASSERT_FALSE(sampler.end(4, i).has_value());
  }
}

}  // namespace
}  // namespace roda::tune
