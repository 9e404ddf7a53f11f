#include "core/control/host_segment.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "tests/unit/control/ranks.h"

namespace roda::control {
namespace {

void expect_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

// Runs `use` on every rank of one host whose world ranks are 10, 11, …
void on_host(int size, const std::function<void(HostSegment&)>& use) {
  LocalStore store;
  std::vector<std::int32_t> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(10 + i);
  expect_ok(on_ranks(size, [&](int local) {
    std::unique_ptr<HostSegment> segment;
    RODA_RETURN_IF_ERROR(HostSegment::form(store, "k", ranks, 10 + local, "a b", soon(), &segment));
    use(*segment);
    return Status();
  }));
}

bool readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) > 0;
}

TEST(HostSegment, FormsForAnySizeAndSharesTheLog) {
  for (const int size : {1, 2, 3, 4, 5, 40}) {  // 40: more than a mailbox holds messages
    on_host(size, [&](HostSegment& segment) {
      EXPECT_EQ(segment.size(), size);
      EXPECT_EQ(segment.world_rank(segment.local_rank()), 10 + segment.local_rank());
      const std::array<std::byte, 4> mine{static_cast<std::byte>(segment.local_rank())};
      ASSERT_EQ(segment.log().append(mine), LogRing::Append::kDone);
      std::vector<bool> seen(static_cast<std::size_t>(size));
      for (int i = 0; i < size;) {
        std::vector<std::byte> record;
        if (!segment.log().read(&record)) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(record.size(), mine.size());
        seen.at(static_cast<std::size_t>(record[0])) = true;
        ++i;
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), true), size);
    });
  }
}

TEST(HostSegment, SomeonesRecordWakesASleeperAndLeavesTheAwakeAlone) {
  std::atomic<bool> asleep{false};
  on_host(2, [&](HostSegment& segment) {
    const std::array<std::byte, 1> record{std::byte{7}};
    if (segment.local_rank() == 0) {
      segment.wake_all();  // nobody sleeps yet, or the peer does: either way it must not be lost
      while (!asleep.load()) std::this_thread::yield();
      ASSERT_EQ(segment.log().append(record), LogRing::Append::kDone);
      segment.wake_all();
    } else {
      EXPECT_FALSE(readable(segment.doorbell(), 0));
      segment.arm();
      asleep = true;
      while (!segment.log().pending()) {
        ASSERT_TRUE(readable(segment.doorbell(), 20'000));
        segment.arm();
      }
      segment.disarm();
    }
  });
}

TEST(HostSegment, TheFirstAbortStaysAndWakesEverybody) {
  std::atomic<int> aborted{0};
  on_host(3, [&](HostSegment& segment) {
    EXPECT_TRUE(segment.local_rank() != 0 || segment.abort_cause().ok() || segment.is_aborted());
    segment.arm();
    segment.abort(Status::peer(11, "from local rank " + std::to_string(segment.local_rank())));
    ++aborted;
    EXPECT_TRUE(readable(segment.doorbell(), 20'000));
    while (aborted.load() < 3) std::this_thread::yield();
    EXPECT_TRUE(segment.is_aborted());
    const Status cause = segment.abort_cause();
    EXPECT_EQ(cause.code(), RODA_ERR_PEER);
    EXPECT_EQ(cause.rank(), 11);
    segment.abort(Status::timeout("too late"));
    EXPECT_EQ(segment.abort_cause().message(), cause.message());
  });
}

// Without a word: as when its process becomes another program. Here it goes on, so it has closed its descriptors.
TEST(HostSegment, ARankThatClosesItsDescriptorsIsMissedAtOnce) {
  LocalStore store;
  std::atomic<bool> has_looked{false};
  expect_ok(on_ranks(2, [&](int local) {
    std::unique_ptr<HostSegment> segment;
    RODA_RETURN_IF_ERROR(HostSegment::form(store, "k", {10, 11}, 10 + local, "a b", soon(), &segment));
    EXPECT_EQ(segment->presence_fd(local), -1);
    if (local == 1) {
      while (!has_looked.load()) std::this_thread::yield();
      return Status();
    }
    pollfd presence{segment->presence_fd(1), 0, 0};
    EXPECT_EQ(::poll(&presence, 1, 0), 0);
    has_looked = true;
    EXPECT_EQ(::poll(&presence, 1, 20'000), 1);
    EXPECT_NE(segment->how_it_ended(1).find("closed the descriptors"), std::string::npos) << segment->how_it_ended(1);
    return Status();
  }));
}

TEST(HostSegment, ARankThatEndsWhileTheSegmentFormsIsNamed) {
  LocalStore store;
  ASSERT_TRUE(store.give("k/host/10/mailbox", 1, "roda-of-a-process-that-has-ended").ok());
  std::unique_ptr<HostSegment> segment;
  const Status status = HostSegment::form(store, "k", {10, 11}, 10, "a b", soon(), &segment);
  EXPECT_EQ(status.code(), RODA_ERR_PEER);
  EXPECT_EQ(status.rank(), 11);
  EXPECT_EQ(status.message(), "Rank 11 ended while the job was starting");
}

TEST(HostSegment, ARankThatNeverComesIsNamed) {
  LocalStore store;
  std::unique_ptr<HostSegment> segment;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  const Status status = HostSegment::form(store, "k", {0, 1}, 0, "a", deadline, &segment);
  EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(segment, nullptr);
}

}  // namespace
}  // namespace roda::control
