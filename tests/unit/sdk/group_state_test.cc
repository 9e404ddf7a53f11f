#include <gtest/gtest.h>
#include <roda/sdk/group_state.hpp>

#include <chrono>
#include <string>
#include <thread>

namespace roda::sdk {
namespace {

constexpr std::int32_t kWorldRanks[] = {10, 11, 12};

roda_group_desc desc_of(std::uint64_t timeout_ns = 0) {
  roda_group_desc desc{};
  desc.struct_size = sizeof desc;
  desc.rank = 1;
  desc.size = 3;
  desc.world_ranks = kWorldRanks;
  desc.name = "world";
  desc.timeout_ns = timeout_ns;
  return desc;
}

template <typename Body>
Failure thrown_by(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure;
  }
  return {RODA_OK, "nothing was thrown"};
}

TEST(GroupState, AHostOfBeforeKnowsNoAddress) {
  roda_group_desc desc = desc_of();
  EXPECT_EQ(GroupState("tcp", desc).address(), "");
  desc.address = "10.0.0.2";
  EXPECT_EQ(GroupState("tcp", desc).address(), "10.0.0.2");
  desc.struct_size = offsetof(roda_group_desc, address);
  EXPECT_EQ(GroupState("tcp", desc).address(), "");
}

TEST(GroupState, OperationsNeedAFormedGroupAndAPeer) {
  GroupState state("tcp", desc_of());
  EXPECT_FALSE(state.works());
  EXPECT_EQ(thrown_by([&] { state.refuse(0); }).code(), RODA_ERR_PRECONDITION);
  state.set_formed();
  EXPECT_TRUE(state.works());
  for (const int peer : {-1, 1, 3}) {
    EXPECT_FALSE(state.is_peer(peer));
    EXPECT_EQ(thrown_by([&] { state.refuse(peer); }).code(), RODA_ERR_INVALID);
  }
  EXPECT_TRUE(state.is_peer(0) && state.is_peer(2));
}

TEST(GroupState, TheFirstCauseStaysAndIsActedOnOnce) {
  GroupState state("tcp", desc_of());
  state.set_formed();
  EXPECT_FALSE(state.take_abort());
  EXPECT_TRUE(state.abort({RODA_ERR_PEER, "first", 12}));
  EXPECT_FALSE(state.abort({RODA_ERR_TIMEOUT, "second", 10}));
  EXPECT_FALSE(state.works());
  EXPECT_TRUE(state.take_abort());
  EXPECT_FALSE(state.take_abort());
  const Failure cause = thrown_by([&] { state.refuse(0); });
  EXPECT_EQ(cause.code(), RODA_ERR_PEER);
  EXPECT_EQ(cause.rank(), 12);
  EXPECT_STREQ(cause.what(), "first");
}

TEST(GroupState, AFormingThatTakesTooLongNamesWhoIsMissing) {
  GroupState never("tcp", desc_of()), late("tcp", desc_of(1'000'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(never.is_late());
  EXPECT_TRUE(late.is_late());
  const Failure failure = late.late({0, 2}, "waiting for cards");
  EXPECT_EQ(failure.code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(failure.rank(), 10);
  EXPECT_EQ(std::string(failure.what()),
            "tcp: group world did not form in 1 ms; missing: rank 10 12; waiting for cards; if the ranks are merely "
            "slow, raise HOROVOD_GLOO_TIMEOUT_SECONDS");
  EXPECT_EQ(late.late({}).rank(), -1);
}

TEST(GroupState, AMemberIsDescribedByItsWorldRank) {
  const GroupState state("tcp", desc_of());
  EXPECT_EQ(state.describe(2), "rank 12 (group world)");
  EXPECT_EQ(state.describe(2, "pid 7"), "rank 12 (group world, pid 7)");
}

TEST(GroupState, NoMemberOfTheGroupIsRefused) {
  roda_group_desc desc = desc_of();
  desc.rank = 3;
  EXPECT_EQ(thrown_by([&] { GroupState("tcp", desc); }).code(), RODA_ERR_INVALID);
}

TEST(ProgressLimit, IsOverWhenNothingMovedAndRenewedByProgress) {
  constexpr std::uint64_t kLimit = 1'000'000;
  ProgressLimit limit;
  EXPECT_FALSE(limit.is_over(0, kLimit));  // the first look
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(limit.is_over(1, kLimit));  // it has moved
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(limit.is_over(1, kLimit));
  EXPECT_FALSE(limit.is_over(1, 0));  // no limit
}

}  // namespace
}  // namespace roda::sdk
