#include "core/observe/flight_recorder.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

namespace roda::observe {
namespace {

using Time = CoarseClock::time_point;

class Flight : public ::testing::Test {
 protected:
  struct alignas(128) Room {
    std::array<std::byte, FlightRecorder::kBytes> bytes{};
  };
  std::unique_ptr<Room> room = std::make_unique<Room>();
  FlightRecorder recorder{room->bytes, {3, 4, 7, "node"}};
  std::string folder = std::filesystem::temp_directory_path() / ("flight-" + std::to_string(::getpid()));

  void SetUp() override { std::filesystem::create_directory(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::uint64_t submit(const std::string& name, std::int64_t at = 1) {
    return recorder.submitted({name, RODA_ALLREDUCE, RODA_FLOAT32, 0, 8, Time(std::chrono::nanoseconds(at))});
  }
  void end(std::uint64_t number) { recorder.ended(number, {}, Time(std::chrono::nanoseconds(9))); }
  nlohmann::json dump() {
    const std::array recorders{std::span<std::byte>(room->bytes)};
    const Status status = dump_flight(recorders, folder, Status::peer(2, "rank 2 \"died\""));
    EXPECT_TRUE(status.ok()) << status.message();
    path = folder + "/roda-flight.node." + std::to_string(::getpid()) + ".7.json";
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  }
  std::string path;
};

TEST_F(Flight, TellsHowFarAnOperationCame) {
  recorder.uses("shm");
  recorder.uses("tcp");
  const std::uint64_t number = submit("grad", 5);
  recorder.agreed(number, Time(std::chrono::nanoseconds(6)));
  recorder.launched(number, Time(std::chrono::nanoseconds(7)));
  recorder.ended(number, Status::invalid("no"), Time(std::chrono::nanoseconds(8)));
  const std::array missing{1, 3};
  recorder.missing(submit("waits"), missing);
  recorder.missing(number, missing);
  recorder.complete(number, 2);
  const nlohmann::json told = dump();
  EXPECT_EQ(told["cause"], "rank 2 \"died\"");
  EXPECT_EQ(told["cause_rank"], 2);
  const nlohmann::json& rank = told["ranks"][0];
  EXPECT_EQ(rank["rank"], 3);
  EXPECT_EQ(rank["host"], "node");
  EXPECT_EQ(rank["transports"], "shm tcp");
  EXPECT_EQ(rank["ended"], 1);
  EXPECT_EQ(rank["ended_bytes"], 8);
  std::map<std::string, nlohmann::json> operations;
  for (const auto& operation : rank["operations"]) operations[operation["name"]] = operation;
  const nlohmann::json& grad = operations.at("grad");
  EXPECT_EQ(grad["collective"], "allreduce");
  EXPECT_EQ(grad["submitted"], 5);
  EXPECT_EQ(grad["agreed"], 6);
  EXPECT_EQ(grad["launched"], 7);
  EXPECT_EQ(grad["ended"], 8);
  EXPECT_EQ(grad["code"], int{RODA_ERR_INVALID});
  EXPECT_EQ(grad["awaited_rank"], 2);
  EXPECT_EQ(grad["missing_count"], 0);
  EXPECT_EQ(operations.at("waits")["awaited_rank"], 1);
  EXPECT_EQ(operations.at("waits")["missing_count"], 2);
}

TEST_F(Flight, ADumpIsWrittenOnceAndForItsOwnerAlone) {
  dump();
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  std::filesystem::remove(path);
  const std::array recorders{std::span<std::byte>(room->bytes)};
  EXPECT_TRUE(dump_flight(recorders, folder, {}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Flight, SaysWhatWasSubmittedLast) {
  const std::array recorders{std::span<std::byte>(room->bytes)};
  EXPECT_EQ(latest_operations(recorders), "Submitted last, on this host: rank 3 nothing. `roda-doctor PID` says more.");
  submit("first");
  submit("second", CoarseClock::now().time_since_epoch().count());
  EXPECT_NE(latest_operations(recorders).find("rank 3 'second', 0 s ago."), std::string::npos);
}

TEST_F(Flight, SaysAtWhichLineTheProgramWaits) {
  note_line(room->bytes, "/users/me/first_and_longer.py:100");
  note_line(room->bytes, "train.py:57");
  EXPECT_EQ(dump()["ranks"][0]["where"], "train.py:57");
  submit("grad");
  const std::array recorders{std::span<std::byte>(room->bytes)};
  EXPECT_NE(latest_operations(recorders).find(" s ago, and waits at train.py:57."), std::string::npos);
  note_line(room->bytes, "");
  EXPECT_EQ(latest_operations(recorders).find("waits"), std::string::npos);
}

TEST_F(Flight, OfALineWithALongPathTheEndIsKept) {
  note_line(room->bytes, std::string(400, 'x') + "/train.py:57");
  EXPECT_EQ(dump()["ranks"][0]["where"], std::string(283, 'x') + "/train.py:57");
}

TEST_F(Flight, ALineThatIsHalfWrittenIsNotShown) {
  note_line(room->bytes, "train.py:57");
  ++reinterpret_cast<FlightHeader*>(room->bytes.data())->line_number;
  note_line(room->bytes, "another.py:1");  // whoever began has not ended
  EXPECT_EQ(dump()["ranks"][0]["where"], "");
}

TEST_F(Flight, OfTwoLinesAReaderNeverSeesAMixture) {
  const std::array lines{std::string(200, 'X'), std::string(250, 'Y')};
  std::atomic<bool> is_enough = false;
  std::thread writer([&] {
    for (std::size_t i = 0; !is_enough; ++i) note_line(room->bytes, lines[i % 2]);
  });
  const std::array recorders{std::span<std::byte>(room->bytes)};
  for (int x = 0, y = 0; x < 1'000 || y < 1'000;) {
    const std::string told = latest_operations(recorders);
    const bool has_x = told.find('X') != std::string::npos, has_y = told.find('Y') != std::string::npos;
    EXPECT_FALSE(has_x && has_y) << told;
    x += has_x ? 1 : 0;
    y += has_y ? 1 : 0;
  }
  is_enough = true;
  writer.join();
}

TEST_F(Flight, AFolderThatIsNotThereIsNamed) {
  const std::array recorders{std::span<std::byte>(room->bytes)};
  const Status status = dump_flight(recorders, folder + "/none", {});
  EXPECT_NE(status.message().find(folder + "/none/roda-flight.node"), std::string::npos) << status.message();
}

TEST_F(Flight, TheOldestGoButNotWhatHasNotEnded) {
  const std::uint64_t stuck = submit("stuck");
  for (int i = 0; i < 3 * static_cast<int>(FlightRecorder::kEntries); ++i) end(submit("n" + std::to_string(i)));
  const nlohmann::json told = dump();
  const auto& operations = told["ranks"][0]["operations"];
  EXPECT_EQ(operations.size(), FlightRecorder::kEntries);
  const auto is_there = [&](const char* name) {
    return std::any_of(operations.begin(), operations.end(), [&](const auto& o) { return o["name"] == name; });
  };
  EXPECT_TRUE(is_there("stuck"));
  EXPECT_TRUE(is_there("n12287"));
  EXPECT_FALSE(is_there("n0"));
  end(stuck);
  EXPECT_EQ(submit("last"), 3 * FlightRecorder::kEntries + 5) << "one number is passed over in each round";
}

TEST_F(Flight, WhatIsNotToldOfAnyMoreChangesNothing) {
  const std::uint64_t old = submit("old");
  for (std::size_t i = 0; i < 2 * FlightRecorder::kEntries; ++i) submit("more");  // none of them ends
  recorder.ended(old, {}, Time(std::chrono::nanoseconds(9)));
  recorder.ended(0, {}, Time(std::chrono::nanoseconds(9)));
  EXPECT_EQ(dump()["ranks"][0]["ended"], 0);
}

TEST_F(Flight, OfALongNameTheEndIsKept) {
  submit(std::string(200, 'x') + "layer.weight");
  const std::string name = dump()["ranks"][0]["operations"][0]["name"];
  EXPECT_EQ(name.find("…"), 0u);
  EXPECT_EQ(name.substr(name.size() - 12), "layer.weight");
}

}  // namespace
}  // namespace roda::observe
