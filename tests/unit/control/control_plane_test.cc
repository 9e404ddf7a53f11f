#include "core/control/control_plane.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>

#include "core/wire/record.h"
#include "tests/unit/control/ranks.h"

namespace roda::control {
namespace {

struct Shape {
  int hosts, per_host;
  int fan_out = 8;
};
void PrintTo(const Shape& shape, std::ostream* os) {
  *os << shape.hosts << "x" << shape.per_host << "/" << shape.fan_out;
}

class ControlPlanes : public testing::TestWithParam<Shape> {
 protected:
  int size() const { return GetParam().hosts * GetParam().per_host; }

  void on_planes(const std::function<void(int, ControlPlane&)>& use) {
    LocalStore store;
    const auto statuses = on_ranks(size(), [&](int rank) {
      const Topology topology = topology_of(GetParam().hosts, GetParam().per_host);
      std::unique_ptr<ControlPlane> plane;
      ControlPlane::Membership membership = membership_for_test();
      membership.fan_out = GetParam().fan_out;
      RODA_RETURN_IF_ERROR(ControlPlane::connect(store, topology, rank, membership, &plane));
      use(rank, *plane);
      // What this rank queued for others must leave before its links do.
      ++done_;
      while (done_.load() < size()) static_cast<void>(plane->service(true));
      plane->depart();
      return Status();
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  }

 private:
  std::atomic<int> done_{0};
};

// Arms, looks once more, sleeps: the way the engine does. A lost wake-up ends in a failed expectation.
void sleep_for_news(ControlPlane& plane) {
  plane.arm();
  if (!plane.pending()) {
    pollfd p{plane.fd(), POLLIN, 0};
    EXPECT_GT(::poll(&p, 1, 20'000), 0) << "nobody rang";
  }
  plane.disarm();
}

TEST_P(ControlPlanes, EveryRankReadsTheSameLogAndNoWakeUpIsLost) {
  constexpr std::uint32_t kEach = 400;
  std::vector<std::vector<std::uint64_t>> logs(static_cast<std::size_t>(size()));
  on_planes([&](int rank, ControlPlane& plane) {
    auto& log = logs[static_cast<std::size_t>(rank)];
    std::vector<std::byte> record(200), read;
    std::uint32_t sent = 0;
    while (log.size() < static_cast<std::size_t>(size()) * kEach) {
      if (sent < kEach && !plane.holds_record()) {
        const std::uint64_t mark = (static_cast<std::uint64_t>(rank) << 32) | sent;
        std::memcpy(record.data(), &mark, sizeof mark);
        ASSERT_TRUE(plane.append(record).ok());
        ++sent;
      }
      ASSERT_TRUE(plane.service(true).ok());
      while (plane.read(&read)) {
        std::uint64_t mark = 0;
        std::memcpy(&mark, read.data(), sizeof mark);
        log.push_back(mark);
      }
      plane.wake_all();
      ASSERT_TRUE(plane.service(true).ok());
      const bool all_said = sent == kEach && !plane.holds_record();
      if (all_said && log.size() < static_cast<std::size_t>(size()) * kEach) sleep_for_news(plane);
    }
  });
  for (const auto& log : logs) EXPECT_EQ(log, logs[0]);
}

// What one rank says at once: far more than a record takes, and requests that are each longer than one.
constexpr int kNames = 300;
constexpr int kRanksOfLargeJob = 16'384;

std::vector<negotiate::Request> large_requests() {
  std::vector<negotiate::Request> requests(kNames + 2);
  for (int i = 0; i < kNames; ++i) {
    requests[static_cast<std::size_t>(i)].name = std::to_string(i) + std::string(4096, 'x');
  }
  requests[kNames].name = std::string(65'536, 'y');
  requests[kNames + 1].collective = RODA_ALLTOALL;
  requests[kNames + 1].name = "to all";
  requests[kNames + 1].splits.assign(kRanksOfLargeJob, 3);
  return requests;
}

TEST_P(ControlPlanes, WhatIsLongerThanARecordArrivesWhole) {
  const std::vector<negotiate::Request> requests = large_requests();
  on_planes([&](int rank, ControlPlane& plane) {
    wire::RecordWriter writer;
    writer.begin(rank, 0);
    for (const auto& request : requests) writer.request(request);
    ASSERT_TRUE(plane.append(writer.end()).ok());
    wire::Parts parts;
    std::vector<std::size_t> heard(static_cast<std::size_t>(size()));  // requests by rank
    std::vector<std::byte> record, bytes;
    for (std::size_t left = requests.size() * heard.size(); left > 0;) {
      ASSERT_TRUE(plane.service(true).ok());
      if (!plane.read(&record)) {
        plane.wake_all();
        continue;
      }
      ASSERT_LE(record.size(), wire::kMostRecordBytes);
      wire::RecordReader reader(record);
      for (wire::ItemView item; reader.next(&item);) {
        bool is_whole = item.kind != wire::Item::kPart;
        const Status taken = is_whole ? Status() : parts.take(item, reader.header().rank, &bytes, &item, &is_whole);
        ASSERT_TRUE(taken.ok()) << taken.message();
        if (!is_whole) continue;
        negotiate::Request request;
        ASSERT_TRUE(wire::read_request(item, reader.header().rank, &request).ok());
        const auto& expected = requests.at(heard[static_cast<std::size_t>(request.rank)]++);
        ASSERT_EQ(request.name, expected.name);
        ASSERT_EQ(request.splits, expected.splits);
        --left;
      }
      ASSERT_TRUE(reader.status().ok()) << reader.status().message();
    }
  });
}

TEST_P(ControlPlanes, AnAbortReachesEveryRankWithItsCause) {
  on_planes([&](int rank, ControlPlane& plane) {
    if (rank == size() - 1) plane.abort(Status::peer(rank, "the last rank has had enough"));
    while (!plane.is_aborted()) static_cast<void>(plane.service(true));
    EXPECT_EQ(plane.abort_cause().code(), RODA_ERR_PEER);
    EXPECT_EQ(plane.abort_cause().rank(), size() - 1);
    EXPECT_EQ(plane.abort_cause().message(), "the last rank has had enough");
  });
}

// Whoever would read the cause may never come back to do so.
TEST(ControlPlane, AnyThreadSeesTheEndOfALinkBeforeWhatItBroughtIsRead) {
  LocalStore store;
  std::atomic<bool> works{false}, is_seen{false};
  const auto statuses = on_ranks(2, [&](int rank) {
    std::unique_ptr<ControlPlane> plane;
    RODA_RETURN_IF_ERROR(ControlPlane::connect(store, topology_of(2, 1), rank, membership_for_test(), &plane));
    if (rank == 1) {
      while (!works) std::this_thread::yield();
      plane->abort(Status::peer(7, "a third rank died"));
      plane->depart();
      while (!is_seen) std::this_thread::yield();
      return Status();
    }
    EXPECT_FALSE(plane->has_failed());
    works = true;
    while (!plane->has_failed()) std::this_thread::yield();
    is_seen = true;
    EXPECT_FALSE(plane->is_aborted());
    static_cast<void>(plane->service(true));
    EXPECT_EQ(plane->abort_cause().message(), "a third rank died");
    return Status();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

// The other leader has not read for long: the cause finds no room on the link, and leaves all the same.
TEST(ControlPlane, AnAbortLeavesAFullLink) {
  LocalStore store;
  std::atomic<bool> is_full{false};
  const std::vector<negotiate::Request> requests = large_requests();
  const auto statuses = on_ranks(2, [&](int rank) {
    std::unique_ptr<ControlPlane> plane;
    RODA_RETURN_IF_ERROR(ControlPlane::connect(store, topology_of(2, 1), rank, membership_for_test(), &plane));
    if (rank == 1) {
      constexpr std::size_t kMoreThanBuffersTake = 15u << 20;
      for (std::size_t said = 0; said < kMoreThanBuffersTake;) {
        wire::RecordWriter writer;
        writer.begin(rank, 0);
        for (const auto& request : requests) writer.request(request);
        const auto record = writer.end();
        said += record.size();
        RODA_RETURN_IF_ERROR(plane->append(record));
        RODA_RETURN_IF_ERROR(plane->service(true));
      }
      plane->abort(Status::peer(7, "a third rank died"));
      static_cast<void>(plane->service(true));
      is_full = true;
      plane->depart();
      return Status();
    }
    while (!is_full) std::this_thread::yield();
    std::vector<std::byte> record;
    while (!plane->is_aborted()) {
      static_cast<void>(plane->service(true));
      while (plane->read(&record)) {
      }
    }
    EXPECT_EQ(plane->abort_cause().message(), "a third rank died");
    return Status();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Shapes, ControlPlanes,
                         testing::Values(Shape{1, 1}, Shape{1, 2}, Shape{1, 4}, Shape{2, 1}, Shape{2, 2}, Shape{3, 2},
                                         Shape{4, 1, 1}, Shape{5, 2, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.hosts) + "x" + std::to_string(info.param.per_host) + "_" +
                                  std::to_string(info.param.fan_out);
                         });

}  // namespace
}  // namespace roda::control
