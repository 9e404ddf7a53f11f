// Files that users write: what is right runs, what is wrong is refused with its place.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "algorithms/schedule/verifier.h"
#include "algorithms/text/schedule_file.h"
#include "tests/unit/sim/scenarios.h"

namespace roda::text {
namespace {

using schedule::Schedule;

const std::filesystem::path kExamples = std::filesystem::path(EXAMPLES);

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string wrong_schedules(const std::string& text) {
  std::vector<Schedule> ranks;
  return read_schedules(text, &ranks).value_or("right");
}

// An allreduce of two ranks with these steps, through one chunk of scratch.
std::string two_ranks(const std::string& first, const std::string& second) {
  return R"({"name": "two", "collective": "allreduce", "size": 2, "ranks": [{"scratch": 1, "lanes": [[)" + first +
         R"(]]}, {"scratch": 1, "lanes": [[)" + second + "]]}]}";
}

std::string exchange(int peer) {
  const std::string to = std::to_string(peer);
  return R"({"do": "send", "peer": )" + to + R"(, "src": "output[0]"}, {"do": "recv_reduce", "peer": )" + to +
         R"(, "src": "output[0]", "dst": "scratch[0]"}, {"do": "copy", "dst": "output[0]", "src": "scratch[0]"})";
}

TEST(ScheduleFile, ARightOneIsRead) {
  std::vector<Schedule> ranks;
  ASSERT_EQ(read_schedules(two_ranks(exchange(1), exchange(0)), &ranks), std::nullopt);
  EXPECT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].lanes[0].steps.size(), 3u);
}

TEST(ScheduleFile, EveryAlgorithmSurvivesBeingWritten) {
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (algorithm->collective == schedule::Collective::kAdasum) continue;  // no file describes one
    for (const int size : {1, 2, 5}) {
      std::vector<Schedule> ranks;
      for (int rank = 0; rank < size; ++rank) ranks.push_back(algorithm->make(rank, size, size - 1));
      std::vector<Schedule> again;
      ASSERT_EQ(read_schedules(write_schedules(ranks), &again), std::nullopt) << algorithm->name << " " << size;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(ranks[rank].lanes.size(), again[rank].lanes.size());
        for (std::size_t lane = 0; lane < ranks[rank].lanes.size(); ++lane) {
          EXPECT_EQ(ranks[rank].lanes[lane].steps, again[rank].lanes[lane].steps);
        }
      }
    }
  }
}

TEST(ScheduleFile, MalformedIsRefusedWithItsPlace) {
  EXPECT_EQ(wrong_schedules("{\"name\": ").rfind("it is no JSON: parse error at line 1, column 10", 0), 0u);
  EXPECT_EQ(wrong_schedules("[]"), "the document must be an object, not []");
  EXPECT_EQ(wrong_schedules("{}"), "/name is missing");
  EXPECT_EQ(wrong_schedules(R"({"name": "x", "collective": "allsum", "size": 1, "ranks": []})"),
            "/collective must be the name of a collective, not \"allsum\"");
  EXPECT_EQ(wrong_schedules(R"({"name": "x", "collective": "allreduce", "size": 1e9, "ranks": []})"),
            "/size must be an integer from 1 to 512, not 1000000000.0");
  EXPECT_EQ(wrong_schedules(R"({"name": "x", "collective": "allreduce", "size": 2, "ranks": []})"),
            "/ranks must be as many entries as the size says, 2, not []");
  EXPECT_EQ(wrong_schedules(R"({"name": "x", "collective": "allreduce", "size": 1, "speed": 3, "ranks": []})"),
            "/speed means nothing here");
  EXPECT_EQ(wrong_schedules(two_ranks(exchange(1), R"({"do": "snd"})")),
            "/ranks/1/lanes/0/0/do must be the name of a step, not \"snd\"");
  EXPECT_EQ(wrong_schedules(two_ranks(exchange(1), R"({"do": "send", "src": "output[0]"})")),
            "/ranks/1/lanes/0/0/peer is missing");
  EXPECT_EQ(wrong_schedules(two_ranks(exchange(1), R"~({"do": "send", "peer": 0, "src": "output[0..0)"})~")),
            "/ranks/1/lanes/0/0/src must be a range like output[2] or scratch[0..4), not \"output[0..0)\"");
  EXPECT_EQ(wrong_schedules(two_ranks(exchange(1), R"({"do": "send", "peer": 0, "scr": "output[0]"})")),
            "/ranks/1/lanes/0/0/scr means nothing here");
}

// Sizes are bounded before memory is taken for them.
TEST(ScheduleFile, TooMuchIsRefused) {
  std::string ranks = R"({"scratch": 4096, "lanes": []})";
  for (int rank = 1; rank < 512; ++rank) ranks += R"(, {"scratch": 4096, "lanes": []})";
  const std::string head = R"({"name": "x", "collective": "allreduce", "size": 512, "chunks": )";
  EXPECT_EQ(wrong_schedules(head + "4096, \"ranks\": [" + ranks + "]}").rfind("/ranks must be of at most a million", 0),
            0u);
  EXPECT_EQ(wrong_schedules(head + "5000, \"ranks\": [" + ranks + "]}"),
            "/chunks must be an integer from 1 to 4096, not 5000");
  std::string lanes = "[]";
  for (int lane = 0; lane < 16; ++lane) lanes += ", []";
  EXPECT_EQ(
      wrong_schedules(R"({"name": "x", "collective": "allreduce", "size": 1, "ranks": [{"lanes": [)" + lanes + "]}]}"),
      "/ranks/0/lanes must be at most 16 lanes, not [[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]");
}

TEST(ScheduleFile, OutOfRangeIsRefused) {
  const std::string wrong = wrong_schedules(two_ranks(R"({"do": "send", "peer": 1, "src": "output[3]"})", exchange(0)));
  EXPECT_EQ(wrong, "two: rank 0, lane 0, step 0: send output[3] to 1: output[3] is out of range: there are 1 chunks");
  EXPECT_NE(wrong_schedules(two_ranks(R"({"do": "send", "peer": 7, "src": "output[0]"})", exchange(0)))
                .find("rank 0, lane 0, step 0: send output[0] to 7: peer out of range"),
            std::string::npos);
}

TEST(ScheduleFile, AWrongSumIsRefused) {
  const std::string half = R"({"do": "send", "peer": 1, "src": "output[0]"})";
  const std::string other = R"({"do": "recv_reduce", "peer": 0, "src": "output[0]", "dst": "output[0]"})";
  EXPECT_EQ(wrong_schedules(two_ranks(half, other)), "two: rank 0: output[0] ends with 1 of 2 contributions");
}

TEST(ScheduleFile, ADeadlockIsRefused) {
  const std::string waits = R"({"do": "recv_reduce", "peer": 1, "src": "output[0]", "dst": "scratch[0]"})";
  const std::string too = R"({"do": "recv_reduce", "peer": 0, "src": "output[0]", "dst": "scratch[0]"})";
  EXPECT_EQ(wrong_schedules(two_ranks(waits, too)).rfind("two: rank 0, lane 0, step 0: deadlock: rank 0 waits", 0), 0u);
}

TEST(ScheduleFile, ARaceIsRefused) {
  const std::string reads = R"({"do": "get_reduce", "peer": 1, "src": "output[0]", "dst": "output[0]"})";
  const std::string too = R"({"do": "get_reduce", "peer": 0, "src": "output[0]", "dst": "output[0]"})";
  const std::string wrong = wrong_schedules(two_ranks(reads, too));
  EXPECT_EQ(wrong.rfind("two: rank 0, lane 0, step 0: get_reduce output[0] += output[0] of 1: reads", 0), 0u) << wrong;
  EXPECT_NE(wrong.find("without being ordered"), std::string::npos);
}

TEST(ScheduleFile, ExamplesAreRightAndRun) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples / "schedules")) {
    sim::Scenario scenario;
    ASSERT_EQ(read_schedules(read_file(entry.path()), &scenario.schedules), std::nullopt) << entry.path();
    scenario.cluster = sim::one_switch();
    scenario.bytes = 1e6;
    EXPECT_GT(sim::outcome_of(scenario).seconds, 0) << entry.path();
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// A file that says what the ring does takes as long as the ring.
TEST(ScheduleFile, PlaysLikeTheAlgorithmItWasWrittenFrom) {
  std::vector<Schedule> ring;
  for (int rank = 0; rank < 6; ++rank) {
    ring.push_back(schedule::find_algorithm(schedule::Collective::kAllreduce, "ring")->make(rank, 6, 0));
  }
  sim::Scenario scenario = sim::flat_allreduce(sim::hosts_of(2), "ring", 6, 3e6);
  const double expected = sim::outcome_of(scenario).seconds;
  ASSERT_EQ(read_schedules(write_schedules(ring), &scenario.schedules), std::nullopt);
  EXPECT_DOUBLE_EQ(sim::outcome_of(scenario).seconds, expected);
}

TEST(ClusterFile, ExamplesAreRight) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples / "clusters")) {
    sim::Cluster cluster;
    EXPECT_EQ(sim::read_cluster(read_file(entry.path()), &cluster), std::nullopt) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(ClusterFile, WrongOnesAreRefusedWithTheirPlace) {
  sim::Cluster cluster;
  const auto wrong = [&](const std::string& levels) {
    return sim::read_cluster(R"({"name": "x", "levels": [)" + levels + "]}", &cluster).value_or("right");
  };
  EXPECT_EQ(wrong(R"({"name": "host", "GBps": 10})"), "right");
  EXPECT_EQ(wrong(R"({"name": "host"})"), "/levels/0/GBps is missing");
  EXPECT_EQ(wrong(R"({"name": "host", "GBps": "fast"})"), "/levels/0/GBps must be a number, 0 or more, not \"fast\"");
  EXPECT_EQ(wrong(R"({"name": "host", "GBps": 0})"), "level host: bandwidths must be positive");
  EXPECT_EQ(wrong(R"({"name": "host", "GBps": 1, "bandwith": 2})"), "/levels/0/bandwith means nothing here");
  EXPECT_EQ(wrong(R"({"name": "a", "GBps": 1}, {"name": "b", "GBps": 1})"), "level a: members must be at least 1");
  EXPECT_EQ(wrong(""), "a cluster has at least one level");
}

}  // namespace
}  // namespace roda::text
