#include "core/tune/tuner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/folder.h"

namespace roda::tune {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Steps of one tensor of a million bytes. A step takes 100 us, and half of it with 4 buckets under way.
struct Training {
  std::vector<Tuning> proposed;
  int steps = 0;
  void run(Tuner* tuner, int most) {
    double now = 0;
    Tuning in_force{1u << 20, 0, 2, ""};
    for (steps = 0; steps < most && !tuner->is_over(); ++steps) {
      now += in_force.outstanding == 4 ? 50 : 100;
      tuner->sampler().add("gradient");
      const auto tuning = tuner->launched(1'000'000, now);
      if (!tuning.has_value()) continue;
      proposed.push_back(in_force = *tuning);
      tuner->in_force();
    }
  }
};

SearchOptions one_choice() {
  SearchOptions options;
  options.threshold = options.hold = false;
  options.choices = {{{[](Tuning* t) { t->outstanding = 1; }, [](Tuning* t) { t->outstanding = 4; }}}};
  return options;
}

TEST(Tuner, ProposesMeasuresAndWritesWhatItFound) {
  const Folder folder;
  const std::string path = folder.path() + "/tuning.csv";
  Tuner::Options options;
  options.warmup = 2;
  options.steps = 3;
  options.log = path;
  options.fixed_columns = "0,1,0,1";
  Tuner tuner(options, Search({1u << 20, 0, 2, ""}, one_choice()));
  Training training;
  training.run(&tuner, 10'000);
  ASSERT_TRUE(tuner.is_over());
  EXPECT_EQ(tuner.best().outstanding, 4u);
  // Five samples of three steps a score, two of them discarded, and two steps in which settings are new.
  EXPECT_LE(training.steps, 5 * 3 * (2 + 3) + 3 * 2);
  ASSERT_EQ(training.proposed.size(), 2u);
  EXPECT_EQ(training.proposed.back().outstanding, 4u);
  EXPECT_EQ(lines_of(path),
            (std::vector<std::string>{"hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
                                      "cycle_time_ms,tensor_fusion_threshold,score,outstanding_buckets,select",
                                      "0,1,0,1,0,1,10000,2,", "0,1,0,1,0,1,10000,1,", "0,1,0,1,0,1,20000,4,",
                                      "0,1,0,1,0,1,20000,4,"}));
}

// What was proposed takes its time through the ranks' log: until then nothing is measured.
TEST(Tuner, WaitsUntilAProposalIsInForce) {
  Tuner::Options options;
  options.warmup = 0;
  options.steps = 1;
  Tuner tuner(options, Search({1u << 20, 0, 2, ""}, one_choice()));
  double now = 0;
  int proposals = 0;
  for (int step = 0; step < 100; ++step) {
    tuner.sampler().add("gradient");
    if (tuner.launched(8, now += 10).has_value()) ++proposals;
  }
  EXPECT_EQ(proposals, 1);
  EXPECT_FALSE(tuner.is_over());
}

TEST(Tuner, GoesOnWithoutALogThatCannotBeWritten) {
  Tuner::Options options;
  options.log = "/no such folder/tuning.csv";
  Tuner tuner(options, Search({1u << 20, 0, 2, ""}, one_choice()));
  Training training;
  training.run(&tuner, 10'000);
  EXPECT_TRUE(tuner.is_over());
}

}  // namespace
}  // namespace roda::tune
