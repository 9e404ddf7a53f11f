// The built-in rules: something runs wherever something can, and the first choice is what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/select/table.h"

namespace roda::select {
namespace {

using schedule::Collective;

constexpr std::uint32_t kOneSided = schedule::kNeedsSignals | schedule::kNeedsGet;
const Offer kMapped = {"mapped", kOneSided | schedule::kNeedsMessages, false};
const Offer kOnlyMapped = {"mapped", kOneSided, false};
const Offer kVendor = {"vendor", schedule::kNeedsMessages, true};
const Offer kOnlyVendor = {"vendor", 0, true};
const Offer kPlain = {"plain", schedule::kNeedsMessages, false};

const Offer kActive = {"active", kOneSided | schedule::kNeedsMessages, false, true};

constexpr Collective kAll[] = {Collective::kAllreduce, Collective::kAllgather, Collective::kBroadcast,
                               Collective::kAlltoall,  Collective::kBarrier,   Collective::kReduceScatter,
                               Collective::kReduce};

std::string first(const Query& query, const std::vector<Offer>& offers) {
  const auto verdicts = Table::defaults().rank(query, offers);
  const auto chosen = std::find_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.usable; });
  return chosen == verdicts.end() ? "none" : chosen->option.transport + "/" + chosen->option.algorithm;
}

std::string allreduce(std::size_t bytes, int size, const std::vector<Offer>& offers) {
  return first({Collective::kAllreduce, Memory::kHost, bytes, size}, offers);
}

TEST(Defaults, FindSomethingForEveryQuery) {
  for (const Collective collective : kAll) {
    for (const Memory memory : {Memory::kHost, Memory::kCuda}) {
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{65536}, std::size_t{1} << 30}) {
        for (int size = 1; size <= 64; ++size) {
          for (const Offer& offer : {kMapped, kOnlyMapped, kVendor, kOnlyVendor, kPlain, kActive}) {
            ASSERT_NE(first({collective, memory, bytes, size}, {offer}), "none")
                << schedule::collective_name(collective) << " of " << bytes << " on " << size << " " << offer.transport;
          }
        }
      }
    }
  }
}

TEST(Defaults, OneSidedComesFirstOnHostMemory) {
  EXPECT_EQ(allreduce(1000, 4, {kPlain, kMapped}), "mapped/oneshot");
  EXPECT_EQ(allreduce(65535, 8, {kMapped}), "mapped/oneshot");
  EXPECT_EQ(allreduce(65536, 8, {kMapped}), "mapped/direct");
  EXPECT_EQ(allreduce(65535, 64, {kMapped}), "mapped/direct");
  EXPECT_EQ(allreduce(1 << 30, 4, {kVendor, kMapped}), "mapped/direct");
  for (const Collective collective : kAll) {
    EXPECT_EQ(first({collective, Memory::kHost, 100, 4}, {kVendor, kMapped}).substr(0, 7), "mapped/");
  }
}

TEST(Defaults, MessagesFewRoundsForSmallFewBytesForLarge) {
  EXPECT_EQ(allreduce(1000, 4, {kPlain}), "plain/recursive_doubling");
  EXPECT_EQ(allreduce(100000, 4, {kPlain}), "plain/rabenseifner");
  EXPECT_EQ(allreduce(1 << 30, 4, {kPlain}), "plain/ring");
}

TEST(Defaults, NativeForLargeData) {
  EXPECT_EQ(allreduce(1000, 4, {kVendor}), "vendor/recursive_doubling");
  EXPECT_EQ(allreduce(1 << 30, 4, {kVendor}), "vendor/native");
  EXPECT_EQ(first({Collective::kAllreduce, Memory::kCuda, 1000, 4}, {kVendor}), "vendor/native");
}

TEST(Defaults, OurSocketsComeBeforeOtherTransportsOfMessages) {
  const Offer sockets = {"tcp", schedule::kNeedsMessages, false};
  for (const Collective collective : kAll) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{100} << 10, std::size_t{64} << 20}) {
      const Query query = {collective, Memory::kHost, bytes, 4};
      EXPECT_EQ(first(query, {kVendor, sockets}).substr(0, 4), "tcp/") << schedule::collective_name(collective);
      EXPECT_EQ(first(query, {kMapped, sockets}).substr(0, 7), "mapped/") << schedule::collective_name(collective);
    }
  }
}

TEST(Defaults, WindowsThatNeedTheirOwnersGiveNoPrecedence) {
  const Offer sockets = {"tcp", schedule::kNeedsMessages, false};
  for (const Collective collective : kAll) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{100} << 10, std::size_t{64} << 20}) {
      const Query query = {collective, Memory::kHost, bytes, 4};
      EXPECT_EQ(first(query, {kActive, sockets}).substr(0, 4), "tcp/") << schedule::collective_name(collective);
      EXPECT_EQ(first(query, {kActive, kMapped, sockets}).substr(0, 7), "mapped/");
    }
  }
  EXPECT_EQ(allreduce(1000, 4, {kActive}), "active/recursive_doubling");
  const auto named = Table::parse("allreduce = active/direct", nullptr);
  const auto verdicts =
      Table::defaults().overridden_by(*named).rank({Collective::kAllreduce, Memory::kHost, 1000, 4}, {kActive});
  EXPECT_TRUE(verdicts.front().usable);
  EXPECT_EQ(verdicts.front().option.algorithm, "direct");
}

TEST(Defaults, KeepTheLosersAsFallbacks) {
  const auto verdicts = Table::defaults().rank({Collective::kAllreduce, Memory::kHost, 1000, 4}, {kMapped, kVendor});
  EXPECT_GE(std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.usable; }), 5);
  EXPECT_TRUE(std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return !v.reason.empty(); }));
}

}  // namespace
}  // namespace roda::select
