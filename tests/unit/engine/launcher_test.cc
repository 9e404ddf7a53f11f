// Launches from agreement to end, in process sets of one rank: nothing travels, so neither peers nor transports are
// needed.
#include "core/launch/launcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace roda::engine {
namespace {

class LauncherTest : public ::testing::Test, private Launcher::Owner {
 protected:
  LauncherTest() : launcher_(this, nullptr, nullptr, {}) { open(0); }

  void open(std::int32_t id) {
    SetRuntime::Options options;
    options.name = "set" + std::to_string(id);
    options.ranks = {0};
    options.rank = 0;
    options.number = static_cast<std::uint64_t>(id);
    launcher_.open_set(id, options);
  }

  void launch(std::int32_t set, std::uint64_t sequence, float* value, int collective = RODA_ALLREDUCE) {
    auto agreed = std::make_shared<negotiate::Agreed>();
    agreed->collective = collective;
    agreed->name = std::to_string(set) + "/" + std::to_string(sequence);
    agreed->rows = agreed->shape = {1};
    agreed->prescale = 2;
    auto operation = std::make_unique<Operation>();
    operation->request.name = agreed->name;
    operation->request.shape = {1};
    operation->input = operation->output = value;
    negotiate::Launch made;
    made.set = set;
    made.sequence = sequence;
    made.tensors.push_back(agreed);
    std::vector<Operation*> of_tensors{operation.get()};
    launcher_.add(made, of_tensors);
    operations_.push_back(std::move(operation));
  }

  std::vector<std::string> started_, finished_, failed_;
  std::vector<std::uint64_t> left_;
  std::vector<std::unique_ptr<Operation>> operations_;
  Launcher launcher_;

 private:
  Status context_made(execute::TransportContext& /*context*/) override { return {}; }
  void started(const LaunchRun& run) override { started_.push_back(run.launch().tensors.front()->name); }
  void finished(LaunchRun& run, const Status& status, bool is_over) override {
    EXPECT_TRUE(is_over);
    finished_.push_back(run.launch().tensors.front()->name + (status.ok() ? "" : ": " + status.message()));
  }
  void failed(const LaunchRun& run, const Status& status) override {
    failed_.push_back(run.launch().tensors.front()->name + ": " + status.message());
  }
  void set_left(std::uint64_t number) override { left_.push_back(number); }
  std::int32_t joined_device(std::int32_t /*set*/) override { return -1; }
};

TEST_F(LauncherTest, LaunchesStartInTheirOrderAndEnd) {
  float values[] = {1, 2, 3};
  for (std::uint64_t i = 0; i < 3; ++i) launch(0, i + 1, &values[i]);
  EXPECT_TRUE(launcher_.busy());
  while (launcher_.busy()) EXPECT_TRUE(launcher_.advance());
  EXPECT_EQ(started_, (std::vector<std::string>{"0/1", "0/2", "0/3"}));
  EXPECT_EQ(finished_, started_);
  EXPECT_EQ(values[2], 6);
  EXPECT_EQ(launcher_.set(0).completed(), 3u);
  EXPECT_FALSE(launcher_.moves_data());
}

TEST_F(LauncherTest, WhatWasLaunchedForARemovedSetGoesOn) {
  open(5);
  float value = 4;
  launch(5, 1, &value);
  launcher_.remove_set(5);
  EXPECT_EQ(launcher_.sets().count(5), 0u);
  EXPECT_TRUE(left_.empty());
  while (launcher_.busy()) launcher_.advance();
  EXPECT_EQ(finished_, std::vector<std::string>{"5/1"});
  EXPECT_EQ(value, 8);
  EXPECT_EQ(left_, std::vector<std::uint64_t>{5});
  launcher_.end_set(5);
  open(6);
  launcher_.remove_set(6);
  EXPECT_EQ(left_, (std::vector<std::uint64_t>{5, 6})) << "at once: nothing was launched for it";
}

TEST_F(LauncherTest, AbortEndsWhatWaitsAndWhatRuns) {
  float values[3] = {};
  for (std::uint64_t i = 0; i < 3; ++i) launch(0, i + 1, &values[i]);
  EXPECT_EQ(launcher_.abort(Status::unknown("the end"), std::chrono::steady_clock::now() + std::chrono::seconds(5)),
            nullptr);
  EXPECT_FALSE(launcher_.busy());
  EXPECT_TRUE(finished_.empty()) << "operations are ended by their owner";
}

TEST_F(LauncherTest, NothingIsOverdueWhereNothingRuns) {
  const auto now = CoarseClock::now();
  EXPECT_EQ(launcher_.find_overdue(now, std::chrono::seconds(0), std::chrono::seconds(0)), nullptr);
  EXPECT_FALSE(launcher_.advance());
  EXPECT_FALSE(launcher_.settle());
}

}  // namespace
}  // namespace roda::engine
