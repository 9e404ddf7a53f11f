#include "core/observe/timeline.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace roda::observe {
namespace {

class TimelineFile : public ::testing::Test {
 protected:
  void TearDown() override { unlink(path.c_str()); }
  nlohmann::json read() const {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
  }
  std::vector<std::string> names(const std::string& phase) const {
    std::vector<std::string> out;
    for (const auto& e : read()) {
      if (e["ph"] == phase && e.contains("name")) out.push_back(e["name"]);
    }
    return out;
  }
  std::string path = ::testing::TempDir() + "roda_timeline_" + std::to_string(getpid()) + ".json";
};

TEST_F(TimelineFile, IsCompleteJsonAfterEveryEvent) {
  Timeline t;
  ASSERT_TRUE(t.open(path, true).ok());
  EXPECT_TRUE(read()[0]["args"].contains("start_time_since_epoch_in_micros"));
  EXPECT_EQ(names("i"), std::vector<std::string>{"CYCLE_START"});  // the opening
  t.announced("a\"b", RODA_ALLREDUCE, 1);
  EXPECT_EQ(names("B"), std::vector<std::string>{"NEGOTIATE_ALLREDUCE"});
  t.announced("a\"b", RODA_ALLREDUCE, 0);
  t.agreed("a\"b", RODA_ALLREDUCE);
  t.cycle();
  t.launched("a\"b", RODA_ALLREDUCE);
  t.started("a\"b", "X_ALLREDUCE");
  t.ended("a\"b", RODA_FLOAT32, {2, 3});
  EXPECT_EQ(names("X"), (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(names("B"), (std::vector<std::string>{"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "QUEUE", "X_ALLREDUCE"}));
  EXPECT_EQ(names("i"), (std::vector<std::string>{"CYCLE_START", "CYCLE_START"}));
  const auto last = read().back();
  EXPECT_EQ(last["args"]["shape"], "[2, 3]");
  EXPECT_EQ(last["args"]["dtype"], "float32");
  int open = 0;
  for (const auto& e : read()) open += e["ph"] == "B" ? 1 : e["ph"] == "E" ? -1 : 0;
  EXPECT_EQ(open, 0);
}

TEST_F(TimelineFile, CanBeSwitchedAndClosed) {
  Timeline t;
  t.launched("ignored", RODA_ALLREDUCE);
  ASSERT_TRUE(t.open(path, false).ok());
  t.cycle();
  t.close();
  t.launched("ignored", RODA_ALLREDUCE);
  EXPECT_EQ(read().size(), 2u);
  EXPECT_FALSE(t.open("/no/such/folder/file", false).ok());
  EXPECT_FALSE(t.active());
}

}  // namespace
}  // namespace roda::observe
