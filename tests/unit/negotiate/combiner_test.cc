#include "core/wire/combiner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/negotiate/combined_job.h"

namespace roda::wire {
namespace {

using std::chrono::milliseconds;

class Combining : public testing::Test {
 protected:
  static constexpr int kCapacity = 1024 * 64;
  Combining() : combiner(below(), kCapacity) {
    const std::vector<std::int32_t> ranks{0, 1, 2, 3, 4, 5};
    combiner.set_added(0, ranks);  // of which 2, 3 and 4 are below
  }
  static RankRanges below() {
    RankRanges ranges;
    ranges.add(2, 4);
    return ranges;
  }
  template <typename Fill>
  void say(int rank, Fill fill, std::uint64_t applied = 1) {
    writer.begin(rank, applied);
    fill(writer);
    combiner.take(writer.end(), now);
  }
  void say_bits(int rank, std::uint64_t word, std::uint64_t applied = 1) {
    say(
        rank, [&](RecordWriter& w) { w.bits(0, 0, std::span(&word, 1)); }, applied);
  }
  void say_finished(int rank, int set, std::uint64_t launches) {
    say(rank, [&](RecordWriter& w) { w.number(Item::kFinished, set, launches); });
  }
  // What travels on now, as text: "2-4:5" are bits 0 and 2 of these ranks, "f9" launches finished, "r" another record.
  std::vector<std::string> heard() {
    std::vector<std::string> out;
    for (Combiner::Record record; combiner.next(now, &record);) {
      std::string text;
      RecordReader reader(record);
      ItemView item;
      while (reader.next(&item)) {
        Bits bits;
        std::uint64_t number = 0;
        if (item.kind == Item::kBits && read_bits(item, &bits).ok() && !bits.ranks.empty()) {
          for (const RankRange& r : bits.ranks) text += std::to_string(r.first) + "-" + std::to_string(r.last) + ":";
          bits.each([&](int bit) { text += std::to_string(bit) + " "; });
          came_last = bits.last;
        } else if (item.kind == Item::kFinished && read_number(item, &number).ok()) {
          text += "f" + std::to_string(number) + " ";
        } else {
          text += "r";
        }
      }
      last_applied = reader.header().applied;
      out.push_back(text);
    }
    return out;
  }
  using Texts = std::vector<std::string>;

  Combiner combiner;
  RecordWriter writer;
  Combiner::Clock::time_point now{};
  std::uint64_t last_applied = 0;
  std::int32_t came_last = -1;
};

TEST_F(Combining, OneRecordForAllRanksBelow) {
  say_bits(3, 0b11, 7);
  say_bits(2, 0b11, 5);
  EXPECT_EQ(heard(), Texts{});
  say_bits(4, 0b11, 9);
  EXPECT_EQ(heard(), Texts{"2-4:0 1 "});
  EXPECT_EQ(last_applied, 5u);
  EXPECT_EQ(came_last, 4);
  EXPECT_EQ(combiner.deadline(), Combiner::Clock::time_point::max());
}

TEST_F(Combining, AStragglerIsNotWaitedForLong) {
  say_bits(2, 1);
  say_bits(4, 1);
  EXPECT_EQ(combiner.deadline(), now + Combiner::kHold);
  now += Combiner::kHold;
  EXPECT_EQ(heard(), Texts{"2-2:4-4:0 "});
  say_bits(3, 1);
  EXPECT_EQ(heard(), Texts{"3-3:0 "}) << "nobody is left to wait for";
  say_bits(3, 1);
  EXPECT_EQ(heard(), Texts{}) << "the next round is waited for again";
}

TEST_F(Combining, AChangedBitForgetsWhoWasAhead) {
  say_bits(2, 1);
  now += Combiner::kHold;
  EXPECT_EQ(heard(), Texts{"2-2:0 "});
  combiner.round_over(0, 0);
  say_bits(3, 1);
  say_bits(4, 1);
  EXPECT_EQ(heard(), Texts{});
  say_bits(2, 1);
  EXPECT_EQ(heard(), Texts{"2-4:0 "});
}

TEST_F(Combining, ARollCallIsHeardOnce) {
  say(3, [](RecordWriter& w) { w.shutdown("ended"); });
  EXPECT_FALSE(combiner.heard_roll_call());
  say(3, [](RecordWriter& w) { w.plain(Item::kRollCall, 0); });
  EXPECT_TRUE(combiner.heard_roll_call());
  EXPECT_FALSE(combiner.heard_roll_call());
  EXPECT_EQ(heard(), (Texts{"r", "r"})) << "it passes all the same";
}

TEST_F(Combining, OtherRecordsPassAfterWhatWasSaidBefore) {
  say_bits(3, 1);
  say(3, [](RecordWriter& w) { w.shutdown("ended"); });
  EXPECT_EQ(heard(), (Texts{"3-3:0 ", "r"}));
}

TEST_F(Combining, NobodyWaitsForThoseWhoJoined) {
  say(3, [](RecordWriter& w) {
    negotiate::Request join;
    join.collective = RODA_JOIN;
    join.name = "join";
    w.request(join);
  });
  EXPECT_EQ(heard(), Texts{"r"});
  say_bits(2, 1);
  EXPECT_EQ(heard(), Texts{"2-2:0 "});
  combiner.join_done(0);
  say_bits(2, 1);
  EXPECT_EQ(heard(), Texts{});
}

// The rank that joined first is the first to announce in the next epoch.
TEST_F(Combining, AfterAJoinEveryBitTravelsOnce) {
  say(2, [](RecordWriter& w) {
    negotiate::Request join;
    join.collective = RODA_JOIN;
    join.name = "join";
    w.request(join);
  });
  say_bits(3, 1);
  EXPECT_EQ(heard(), (Texts{"r", "3-3:0 "}));
  combiner.join_done(0);
  for (const int rank : {2, 4, 3}) say_bits(rank, 1);
  EXPECT_EQ(heard(), Texts{"2-4:0 "});
}

TEST_F(Combining, ABitThatMayTravelIsNotListedTwice) {
  say_bits(3, 1);
  now += Combiner::kHold;
  EXPECT_EQ(heard(), Texts{"3-3:0 "});
  for (const int rank : {2, 4}) say_bits(rank, 1);  // complete with the one ahead
  combiner.round_over(0, 0);
  say_bits(3, 1);
  EXPECT_EQ(heard(), Texts{"2-4:0 "});
}

TEST_F(Combining, ARecordDoesNotGrowWithoutEnd) {
  std::vector<std::uint64_t> words(1024);
  for (std::size_t w = 0; w < words.size(); ++w) {  // every bit is announced by ranks of its own
    words.assign(words.size(), 0);
    words[w] = w % 2 == 0 ? 1 : 2;
    say(w % 3 == 0 ? 2 : 4, [&](RecordWriter& writer_of) { writer_of.bits(0, 0, words); });
  }
  now += Combiner::kHold;
  std::size_t largest = 0;
  for (Combiner::Record record; combiner.next(now, &record);) largest = std::max(largest, record.size());
  EXPECT_GT(largest, 0u);
  EXPECT_LE(largest, kMostRecordBytes);
}

TEST_F(Combining, AnIdThatIsUsedAgainStartsAfresh) {
  say_finished(2, 7, 50);
  EXPECT_EQ(heard(), Texts{"f50 "}) << "of a set that nobody knows";
  const std::vector<std::int32_t> ranks{2, 3};
  for (const int launches : {50, 1}) {
    combiner.set_added(7, ranks);
    combiner.want_finished(7, true);
    say_finished(2, 7, static_cast<std::uint64_t>(launches));
    EXPECT_EQ(heard(), Texts{"f" + std::to_string(launches) + " "});
  }
}

TEST_F(Combining, AFinishedLaunchTravelsWithAnnouncementsOrWhenItIsWanted) {
  say_finished(2, 0, 1);
  now += 10 * Combiner::kHold;
  EXPECT_EQ(heard(), Texts{});
  EXPECT_EQ(combiner.deadline(), Combiner::Clock::time_point::max());
  combiner.want_finished(0, true);
  EXPECT_EQ(heard(), Texts{"f1 "});
  say_finished(3, 0, 1);
  EXPECT_EQ(heard(), Texts{}) << "once";
  combiner.want_finished(0, false);
  const std::uint64_t word = 1;
  for (int rank : {2, 3, 4}) {
    EXPECT_EQ(heard(), Texts{});
    say(rank, [&](RecordWriter& w) {
      w.number(Item::kFinished, 0, 2);
      w.bits(0, 0, std::span(&word, 1));
    });
  }
  EXPECT_EQ(heard(), Texts{"f2 2-4:0 "});
}

// A rank whose record has more than bits has announced those, too.
TEST_F(Combining, BitsThatPassedAreNotWaitedFor) {
  const std::uint64_t word = 0b11;
  say(3, [&](RecordWriter& w) {
    negotiate::Request request;
    request.name = "new";
    w.request(request);
    w.bits(0, 0, std::span(&word, 1));
  });
  EXPECT_EQ(heard().size(), 1u);
  say_bits(2, 0b11);
  say_bits(4, 0b01);
  EXPECT_EQ(heard(), Texts{"2-2:4-4:0 "});
  say_bits(4, 0b10);
  EXPECT_EQ(heard(), Texts{"2-2:4-4:1 "});
  for (const int rank : {2, 3, 4}) say_bits(rank, 0b11);
  EXPECT_EQ(heard(), Texts{"2-4:0 1 "}) << "the next round";
}

TEST_F(Combining, ADisputedBitIsNotWaitedFor) {
  say_bits(2, 0b11);
  combiner.disputed(0, 1);
  EXPECT_EQ(heard(), Texts{"2-2:1 "});
  say_bits(3, 0b11);
  EXPECT_EQ(heard(), Texts{"3-3:1 "});
  combiner.round_over(0, 1);
  say_bits(4, 0b11);
  EXPECT_EQ(heard(), Texts{"2-4:0 "});
  for (const int rank : {2, 3}) say_bits(rank, 0b10);
  EXPECT_EQ(heard(), Texts{"2-4:1 "});
}

TEST_F(Combining, WhatIsSaidOfUnknownProcessSetsPassesAsItIs) {
  const std::uint64_t word = 1;
  say(2, [&](RecordWriter& w) { w.bits(7, 0, std::span(&word, 1)); });
  Combiner::Record record;
  ASSERT_TRUE(combiner.next(now, &record));
  EXPECT_TRUE(std::equal(record.begin(), record.end(), writer.end().begin(), writer.end().end()));
}

// A record of 48 bytes must not make anybody hold more than the cache has entries.
TEST_F(Combining, BitsBeyondTheCacheAreNotHeld) {
  const std::uint64_t word = 1;
  say(2, [&](RecordWriter& w) { w.bits(0, kCapacity / 64 - 1, std::span(&word, 1)); });
  EXPECT_EQ(heard(), Texts{});
  say(3, [&](RecordWriter& w) { w.bits(0, kCapacity / 64, std::span(&word, 1)); });
  EXPECT_EQ(heard(), (Texts{"2-2:65472 ", "r"}));
  say(3, [&](RecordWriter& w) { w.bits(0, (1u << 20) - 1, std::span(&word, 1)); });
  EXPECT_EQ(heard(), Texts{"r"});
}

TEST_F(Combining, WhatRanksSayThatAreNotBelowPasses) {
  const std::uint64_t word = 1;
  for (const int rank : {0, 5, -1, 1 << 30}) {
    say(rank, [&](RecordWriter& w) { w.bits(0, 0, std::span(&word, 1)); });
    EXPECT_EQ(heard(), Texts{"r"}) << rank;
  }
}

TEST_F(Combining, MalformedRecordsReachThoseWhoReport) {
  const std::vector<std::byte> garbage(40, std::byte{7});
  combiner.take(garbage, now);
  Combiner::Record record;
  ASSERT_TRUE(combiner.next(now, &record));
  EXPECT_EQ(record, garbage);
}

class CombinedJobs : public testing::TestWithParam<negotiate::CombinedShape> {};

// Ranks announce the same tensors in different orders, read the log at different speeds, and stumble over a cache that
// is too small: every rank still reaches the same launches, and nothing is left.
TEST_P(CombinedJobs, ReachTheSameAgreements) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    negotiate::CombinedJob job(GetParam(), seed);
    ASSERT_TRUE(job.run()) << "stuck with seed " << seed;
    ASSERT_TRUE(job.diaries_are_equal()) << seed;
    ASSERT_EQ(job.launched(), job.expected()) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CombinedJobs,
                         testing::Values(negotiate::CombinedShape{1, 3, 8}, negotiate::CombinedShape{2, 2, 8},
                                         negotiate::CombinedShape{3, 1, 1}, negotiate::CombinedShape{4, 2, 1},
                                         negotiate::CombinedShape{7, 2, 2}));

// In step, what the root hears and what the log carries for one announcement of all ranks does not grow with them.
TEST(CombinedJob, RecordsDoNotGrowWithRanks) {
  for (const int hosts : {4, 16, 64}) {
    negotiate::CombinedJob job({hosts, 4, 4}, 1, /*in_step=*/true);
    ASSERT_TRUE(job.run());
    EXPECT_EQ(job.log_records_of_last_round(), 1) << hosts;
  }
}

}  // namespace
}  // namespace roda::wire
