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
  Tuner::Study options;
  options.warmup = 2;
  options.steps = 3;
  options.log = path;
  options.fixed_columns = "0,1,0,1";
  options.job = "4 ranks";
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
                                      "cycle_time_ms,tensor_fusion_threshold,score,outstanding_buckets,job,select",
                                      "0,1,0,1,0,1,10000,2,,", "0,1,0,1,0,1,10000,1,,", "0,1,0,1,0,1,20000,4,,",
                                      "0,1,0,1,0,1,20000,4,4 ranks,"}));
}

Tuner::Study short_options(const Folder& folder) {
  Tuner::Study options;
  options.warmup = 0;
  options.steps = 1;
  options.log = folder.path() + "/tuning.csv";
  options.fixed_columns = "0,1,0,1";
  options.job = "4 ranks";
  return options;
}

void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream file(path);
  for (const auto& line : lines) file << line << '\n';
}

// A choice that writes rules, with what a rule may have in it.
SearchOptions one_rule() {
  SearchOptions options = one_choice();
  options.choices.push_back({{[](Tuning* t) { t->select = "allreduce:0-8[2] = shm/direct, */ring"; }}});
  return options;
}

TEST(Tuner, BeginsWithWhatAJobOfItsKindHasFound) {
  const Folder folder;
  const Tuner::Study options = short_options(folder);
  const Tuning found{3u << 19, 1500, 4, "allreduce:0-8[2] = shm/direct, */ring"};
  {
    Tuner first(options, Search({1u << 20, 0, 2, ""}, one_rule()));
    Training training;
    training.run(&first, 10'000);
    ASSERT_TRUE(first.is_over());
  }
  auto lines = lines_of(options.log);
  lines.back() = "0,1,0,1,1.5,1.5,20000,4,4 ranks," + found.select;
  write_lines(options.log, lines);
  Tuner again(options, Search({1u << 20, 0, 2, ""}, one_rule()));
  EXPECT_FALSE(again.is_over()) << "the ranks don't know yet";
  Training training;
  training.run(&again, 10);
  EXPECT_TRUE(again.is_over());
  EXPECT_EQ(training.steps, 1);
  EXPECT_EQ(training.proposed, std::vector<Tuning>{found});
  EXPECT_EQ(again.best(), found);
  EXPECT_EQ(lines_of(options.log), lines) << "it stays for the next one";
}

TEST(Tuner, LooksAnewWhereTheLogIsOfAnotherJobOrNotWhole) {
  const Folder folder;
  Tuner::Study options = short_options(folder);
  std::vector<std::string> whole;
  const auto runs_through = [&](const std::vector<std::string>& lines) {
    write_lines(options.log, lines);
    Tuner tuner(options, Search({1u << 20, 0, 2, ""}, one_choice()));
    Training training;
    training.run(&tuner, 10'000);
    whole = lines_of(options.log);
    return tuner.is_over() && training.steps > 3;
  };
  ASSERT_TRUE(runs_through({}));
  const std::vector<std::string> written = whole;
  EXPECT_FALSE(runs_through(written)) << "that one is taken";
  std::vector<std::string> lines = written;
  lines.pop_back();
  EXPECT_TRUE(runs_through(lines)) << "ended before it was over";
  EXPECT_TRUE(runs_through({"something else"}));
  EXPECT_TRUE(runs_through({written.front(), "1,2"}));
  options.job = "2 ranks";
  EXPECT_TRUE(runs_through(written));
  EXPECT_EQ(whole.size(), written.size());
}

// What was proposed takes its time through the ranks' log: until then nothing is measured.
TEST(Tuner, WaitsUntilAProposalIsInForce) {
  Tuner::Study options;
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
  Tuner::Study options;
  options.log = "/no such folder/tuning.csv";
  Tuner tuner(options, Search({1u << 20, 0, 2, ""}, one_choice()));
  Training training;
  training.run(&tuner, 10'000);
  EXPECT_TRUE(tuner.is_over());
}

}  // namespace
}  // namespace roda::tune
