#include "core/engine/choice_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace roda::engine {
namespace {

using negotiate::Change;
using negotiate::Refinement;

const negotiate::LaunchClass kClass{RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, 16};

Refinement change(Change what) {
  Refinement r;
  r.change = what;
  r.of = kClass;
  r.launches = what == Change::kTry ? 40 : 0;
  r.option = "far/ring";
  r.present = "far/tree";
  r.present_seconds = 2.4e-4;
  r.option_seconds = what == Change::kTry ? 0 : 8.1e-5;
  return r;
}

TEST(ChoiceTable, SaysEachChangeInOneLineWithFigures) {
  const std::string of = "allreduce of 32768 to 65535 bytes of float32 (sum), process set 0: ";
  EXPECT_EQ(sentence(1, change(Change::kTry)),
            "change 1: " + of + "tries far/ring in 40 launches beside far/tree, which takes 240 us");
  EXPECT_EQ(sentence(2, change(Change::kKeep)), "change 2: " + of + "keeps far/ring, 81 us against 240 us of far/tree");
  EXPECT_EQ(sentence(3, change(Change::kGoBack)),
            "change 3: " + of + "goes back to far/tree from far/ring: 81 us against 240 us");
  Refinement blind = change(Change::kGoBack);
  blind.option_seconds = 0;
  EXPECT_EQ(sentence(4, blind), "change 4: " + of + "goes back to far/tree from far/ring: too few launches ran alone");
}

TEST(ChoiceTable, TellsWhatRanAndWhy) {
  ChoiceTable table;
  EXPECT_EQ(table.describe(false), "");
  for (int i = 0; i < 3; ++i) table.ran(0, kClass, "allreduce by far/tree");
  table.changed(1, change(Change::kTry));
  table.ran(0, kClass, "allreduce by far/ring");
  table.ran(2, kClass, "allreduce by far/ring");
  EXPECT_EQ(table.describe(false),
            "allreduce of 32768 to 65535 bytes of float32 (sum), process set 0:\n"
            "  allreduce by far/ring: 1 launches\n"
            "  allreduce by far/tree: 3 launches\n"
            "  change 1: tries far/ring in 40 launches beside far/tree, which takes 240 us\n"
            "allreduce of 32768 to 65535 bytes of float32 (sum), process set 2:\n"
            "  allreduce by far/ring: 1 launches\n");
  const auto told = nlohmann::json::parse(table.describe(true));
  EXPECT_EQ(told["refine"], true);
  ASSERT_EQ(told["classes"].size(), 2u);
  EXPECT_EQ(told["classes"][0]["launches"]["allreduce by far/tree"], 3);
  EXPECT_EQ(told["classes"][0]["changes"][0]["change"], "try");
  EXPECT_FALSE(table.kept(0, kClass));
  table.changed(2, change(Change::kKeep));
  table.changed(3, change(Change::kTry));
  ASSERT_TRUE(table.kept(0, kClass));
  EXPECT_EQ(table.kept(0, kClass)->option, "far/ring");
  EXPECT_EQ(table.kept(0, kClass)->words, "change 2 keeps far/ring, 81 us against 240 us of far/tree");
  table.forget_set(0);
  EXPECT_FALSE(table.kept(0, kClass));
  EXPECT_EQ(nlohmann::json::parse(table.describe(true))["classes"].size(), 1u);
}

// One thread runs the job, another one asks.
TEST(ChoiceTable, IsReadWhileTheJobRuns) {
  ChoiceTable table;
  std::thread job([&table] {
    for (std::uint64_t i = 1; i <= 500; ++i) {
      table.ran(0, kClass, i % 2 == 0 ? "allreduce by far/tree" : "allreduce by far/ring");
      if (i % 50 == 0) table.changed(i, change(Change::kTry));
    }
  });
  for (int i = 0; i < 50; ++i) static_cast<void>(table.describe(i % 2 == 0));
  job.join();
  const auto told = nlohmann::json::parse(table.describe(true));
  EXPECT_EQ(told["classes"][0]["launches"]["allreduce by far/ring"], 250);
  EXPECT_EQ(told["classes"][0]["changes"].size(), 10u);
}

}  // namespace
}  // namespace roda::engine
