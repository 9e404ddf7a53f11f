#include "core/observe/timeline.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

namespace roda::observe {
namespace {

class TimelineFile : public ::testing::Test {
 protected:
  void TearDown() override { unlink(path.c_str()); }
  // Throws for anything but complete JSON.
  nlohmann::json read() const {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
  }
  static std::vector<std::string> names_in(const nlohmann::json& events, const std::string& phase) {
    std::vector<std::string> out;
    for (const auto& e : events) {
      if (e["ph"] == phase && e.contains("name")) out.push_back(e["name"]);
    }
    return out;
  }
  std::vector<std::string> names(const std::string& phase) const { return names_in(read(), phase); }
  // The writer needs no event to follow, and no close().
  void wait_for(const std::string& phase, std::size_t count) const {
    nlohmann::json events;
    do {
      std::this_thread::yield();
      std::ifstream in(path);  // half of it may be of before a write
      events = nlohmann::json::parse(in, nullptr, false);
    } while (events.is_discarded() || names_in(events, phase).size() < count);
  }
  static void all_of(Timeline& t, const std::string& tensor) {
    t.announced(tensor, RODA_ALLREDUCE, 1);
    t.announced(tensor, RODA_ALLREDUCE, 0);
    t.agreed(tensor, RODA_ALLREDUCE);
    t.cycle();
    t.launched(tensor, RODA_ALLREDUCE);
    t.started(tensor, "X_ALLREDUCE");
    t.ended(tensor, RODA_FLOAT32, {2, 3});
  }
  std::string path = ::testing::TempDir() + "roda_timeline_" + std::to_string(getpid()) + ".json";
};

TEST_F(TimelineFile, IsCompleteJsonWhileItIsWritten) {
  Timeline t;
  ASSERT_TRUE(t.open(path, true).ok());
  EXPECT_TRUE(read()[0]["args"].contains("start_time_since_epoch_in_micros"));
  wait_for("i", 1);
  EXPECT_EQ(names("i"), std::vector<std::string>{"CYCLE_START"});  // the opening
  t.announced("a\"b", RODA_ALLREDUCE, 1);
  wait_for("B", 1);
  EXPECT_EQ(names("B"), std::vector<std::string>{"NEGOTIATE_ALLREDUCE"});
  t.announced("a\"b", RODA_ALLREDUCE, 0);
  t.agreed("a\"b", RODA_ALLREDUCE);
  t.cycle();
  t.launched("a\"b", RODA_ALLREDUCE);
  t.started("a\"b", "X_ALLREDUCE");
  t.ended("a\"b", RODA_FLOAT32, {2, 3});
  wait_for("B", 4);
  EXPECT_EQ(names("X"), (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(names("B"), (std::vector<std::string>{"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "QUEUE", "X_ALLREDUCE"}));
  EXPECT_EQ(names("i"), (std::vector<std::string>{"CYCLE_START", "CYCLE_START"}));
  t.close();
  const auto last = read().back();
  EXPECT_EQ(last["args"]["shape"], "[2, 3]");
  EXPECT_EQ(last["args"]["dtype"], "float32");
  int open = 0;
  for (const auto& e : read()) open += e["ph"] == "B" ? 1 : e["ph"] == "E" ? -1 : 0;
  EXPECT_EQ(open, 0);
}

TEST_F(TimelineFile, HasEverythingOnceItIsClosed) {
  constexpr int kTensors = 4000;  // more text than is gathered
  Timeline t;
  ASSERT_TRUE(t.open(path, false).ok());
  for (int i = 0; i < kTensors; ++i) all_of(t, "tensor" + std::to_string(i % 100));
  t.close();
  EXPECT_EQ(names("X").size(), 2u * kTensors);
  EXPECT_EQ(names("M").size(), 2u + 2 * 100);
}

TEST_F(TimelineFile, IsCompleteJsonAfterAKill) {
  const pid_t child = fork();
  if (child == 0) {
    Timeline t;
    if (!t.open(path, true).ok()) _exit(1);
    for (int i = 0; i < 200; ++i) all_of(t, "tensor" + std::to_string(i % 10));
    pause();
  }
  wait_for("X", 400);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(names("X").size(), 400u);
}

TEST_F(TimelineFile, StaysCompleteJsonWhereTheDiskIsFull) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Timeline t;
    if (!t.open(path, true).ok()) _exit(1);
    while (t.active()) all_of(t, "tensor");
    t.close();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GE(read().size(), 1u);
}

TEST_F(TimelineFile, SaysWhoWritesAndWhatRan) {
  Timeline t;
  ASSERT_TRUE(t.open(path, false, "\"rank\": 3").ok());
  t.launched("a", RODA_ALLREDUCE);
  t.started("a", "SHM_ALLREDUCE", "{\"plan\": \"ring\"}");
  const auto begin = std::chrono::steady_clock::now();
  t.part("a", {"MEMCPY_IN_FUSION_BUFFER", 1, 7, begin, begin + std::chrono::microseconds(250)});
  t.close();
  const nlohmann::json events = read();
  EXPECT_EQ(events[0]["args"]["rank"], 3);
  EXPECT_TRUE(events[0]["args"].contains("start_time_since_epoch_in_micros"));
  const nlohmann::json& part = events.back();
  EXPECT_EQ(part["name"], "MEMCPY_IN_FUSION_BUFFER");
  EXPECT_EQ(part["ph"], "X");
  EXPECT_EQ(part["tid"], 1);
  EXPECT_EQ(part["dur"], 250);
  EXPECT_EQ(part["args"]["slice"], 7);
  const nlohmann::json& activity = events[events.size() - 2];
  EXPECT_EQ(activity["name"], "SHM_ALLREDUCE");
  EXPECT_EQ(activity["args"]["plan"], "ring");
  EXPECT_EQ(activity["pid"], part["pid"]);
}

TEST_F(TimelineFile, ForgetsNamesThatAreUsedNoMore) {
  constexpr int kNames = 160;  // of a size that less than half of them are remembered
  const auto unnamed = [](int i) { return std::string(60'000, 'x') + std::to_string(i); };
  Timeline t;
  ASSERT_TRUE(t.open(path, false).ok());
  t.announced("waits", RODA_ALLREDUCE, 0);
  t.launched("runs", RODA_ALLREDUCE);
  for (int i = 0; i < kNames; ++i) {
    all_of(t, unnamed(i));
    all_of(t, "used");
  }
  all_of(t, unnamed(0));
  t.agreed("waits", RODA_ALLREDUCE);
  t.started("runs", "X_ALLREDUCE");
  t.ended("runs", RODA_FLOAT32, {});
  t.close();
  std::map<std::string, std::vector<int>> rows;
  std::map<int, int> open;
  for (const auto& e : read()) {
    if (e["name"] == "process_name" && e["args"].contains("name")) rows[e["args"]["name"]].push_back(e["pid"]);
    open[e["pid"]] += e["ph"] == "B" ? 1 : e["ph"] == "E" ? -1 : 0;
  }
  EXPECT_EQ(rows[unnamed(0)].size(), 2u) << "it was forgotten";
  EXPECT_EQ(rows[unnamed(kNames - 1)].size(), 1u);
  for (const char* name : {"used", "waits", "runs"}) EXPECT_EQ(rows[name].size(), 1u) << name;
  std::set<int> pids;
  for (const auto& [name, own] : rows) pids.insert(own.begin(), own.end());
  EXPECT_EQ(pids.size(), kNames + 4u) << "no row has two tensors";
  for (const auto& [pid, count] : open) EXPECT_EQ(count, 0) << pid;
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
