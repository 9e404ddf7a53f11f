#include "core/negotiate/negotiator.h"

#include <gtest/gtest.h>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

using Lines = std::vector<std::string>;

// Splits that don't fit come from a rank of another build, or from one that means another process set.
TEST(Negotiator, SplitsThatDoNotFitAreRefused) {
  const std::vector<std::int32_t> wrong[] = {{},        {1, 1},     {1, 1, 1, 1},
                                             {2, 2, 1}, {-1, 2, 1}, {INT32_MAX, INT32_MAX, 4}};
  for (const auto& splits : wrong) {
    Job job(settings_for(3));
    for (int r = 0; r < 3; ++r) {
      Request request = make_request(r, "a", {4}, RODA_ALLTOALL);
      request.splits = r == 1 ? splits : std::vector<std::int32_t>{1, 1, 2};
      job.submit(request);
    }
    ASSERT_EQ(job.diary().lines, Lines{"refuse 0 a"}) << splits.size();
    EXPECT_NE(job.diary().errors.at("a").find("The splits of an ALLTOALL do not fit its 3 members"), std::string::npos);
    job.expect_equal_diaries();
  }
}

TEST(Negotiator, RecordsOfWhatNobodyMaySayAreMalformed) {
  using Fill = void (*)(wire::RecordWriter&);
  const Fill fills[] = {
      [](wire::RecordWriter& w) {
        Request r = make_request(1, "b", {4}, RODA_BROADCAST);
        r.root = 3;
        w.request(r);
      },
      [](wire::RecordWriter& w) { w.add_set({}); },
      [](wire::RecordWriter& w) {
        w.add_set(std::vector<std::int32_t>{0, 3});
      },
      [](wire::RecordWriter& w) {
        w.add_set(std::vector<std::int32_t>{-1, 1});
      },
      [](wire::RecordWriter& w) {
        w.add_set(std::vector<std::int32_t>{1, 0});
      },
      [](wire::RecordWriter& w) {
        w.add_set(std::vector<std::int32_t>{1, 1});
      },
      [](wire::RecordWriter& w) { w.item(wire::Item::kPart, 0, {}); },
      [](wire::RecordWriter& w) { w.item(static_cast<wire::Item>(99), 0, {}); },
  };
  int number = 0;
  for (const Fill fill : fills) {
    Negotiator negotiator(settings_for(3), 0);
    Diary diary;
    wire::RecordWriter writer;
    writer.begin(1, 0);
    fill(writer);
    const Status status = negotiator.apply(writer.end(), &diary);
    EXPECT_EQ(status.message().find("malformed control record: "), 0u) << number << ": " << status.message();
    ++number;
  }
}

// One that was said of a process set that is gone by then must not be counted for the next of its number.
TEST(Negotiator, AVoteForASetThatIsGoneIsNone) {
  Job job(settings_for(2));
  const auto add = [](wire::RecordWriter& w) { w.add_set(std::vector<std::int32_t>{1}); };
  const auto remove = [](wire::RecordWriter& w) { w.plain(wire::Item::kRemoveSet, 1); };
  job.say(0, remove);
  for (int r : {0, 1}) job.say(r, add);
  job.say(1, remove);
  EXPECT_EQ(job.diary().lines, Lines{"added 1"});
  job.say(0, remove);
  EXPECT_EQ(job.diary().lines, (Lines{"added 1", "removed 1"}));
}

TEST(Negotiator, JoinedRanksCountAsReady) {
  Job job(settings_for(3));
  Request join = make_request(2, "join.noname", {}, RODA_JOIN);
  job.submit(make_request(0, "a"));
  job.submit(join);
  job.submit(make_request(1, "a"));
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a"});
  job.submit(make_request(0, "g", {2}, RODA_ALLGATHER));
  job.submit(make_request(1, "g", {2}, RODA_ALLGATHER));
  EXPECT_EQ(job.diary().lines.back(), "refuse 0 g");
  EXPECT_EQ(job.diary().errors.at("g").find("Allgather is not supported with Join at this time."), 0u);
  job.submit(make_request(1, "join.noname", {}, RODA_JOIN));
  job.submit(make_request(0, "join.noname", {}, RODA_JOIN));
  EXPECT_EQ(job.diary().lines.back(), "joined 0");
  job.submit(make_request(0, "b"));
  EXPECT_EQ(job.diary().lines.back(), "joined 0");
  job.expect_equal_diaries();
}

TEST(Negotiator, JoinCompletesCachedTensorsThatWaitedForIt) {
  Job job(settings_for(2));
  for (int r : {0, 1}) job.submit(make_request(r, "a"));
  job.submit(make_request(0, "a"));
  job.submit(make_request(1, "join.noname", {}, RODA_JOIN));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 a");
  job.submit(make_request(0, "a"));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 a") << "two are outstanding";
  job.finished(0, 2);
  EXPECT_EQ(job.diary().lines.back(), "launch 0#3 a");
}

TEST(Negotiator, SetsAreAddedAndRemovedByConsent) {
  Job job(settings_for(3));
  const std::vector<std::int32_t> ranks{0, 2};
  for (int r : {2, 0}) job.say(r, [&](wire::RecordWriter& w) { w.add_set(ranks); });
  EXPECT_FALSE(job.at(0).has_set(1));
  job.say(1, [&](wire::RecordWriter& w) { w.add_set(ranks); });
  EXPECT_EQ(job.diary().lines, Lines{"added 1"});
  EXPECT_EQ(job.at(1).position(1, 2), 1);
  EXPECT_EQ(job.at(1).position(1, 1), -1);
  Request a = make_request(0, "a");
  a.set = 1;
  job.submit(a);
  a.rank = 2;
  job.submit(a);
  EXPECT_EQ(job.diary(1).lines.back(), "launch 1#1 a");
  for (int r : {0, 1, 2}) job.say(r, [&](wire::RecordWriter& w) { w.plain(wire::Item::kRemoveSet, 1); });
  EXPECT_EQ(job.diary().lines.back(), "removed 1");
  for (int r : {0, 1, 2}) job.say(r, [&](wire::RecordWriter& w) { w.add_set(ranks); });
  EXPECT_EQ(job.diary().lines.back(), "added 1") << "ids are used again";
}

// What a removed set's members still need of it goes when all of them have said that its launches have ended; whoever
// says so late does not mean the next set of its id.
TEST(Negotiator, ARemovedSetEndsWhenAllItsMembersHaveSaidSo) {
  Job job(settings_for(3));
  const std::vector<std::int32_t> ranks{0, 2};
  const auto all_say = [&](const auto& fill) {
    for (int r : {0, 1, 2}) job.say(r, fill);
  };
  const auto add = [&](wire::RecordWriter& w) { w.add_set(ranks); };
  const auto remove = [](wire::RecordWriter& w) { w.plain(wire::Item::kRemoveSet, 1); };
  const auto says_ended = [&](int rank, std::uint64_t number) {
    job.say(rank, [number](wire::RecordWriter& w) { w.number(wire::Item::kSetEnded, 0, number); });
  };
  all_say(add);
  EXPECT_EQ(job.at(0).number(1), 1u);
  says_ended(0, 1);  // of a set that is there: nothing
  all_say(remove);
  all_say(add);
  EXPECT_EQ(job.at(0).number(1), 2u);
  const Lines before{"added 1", "removed 1", "added 1"};
  says_ended(2, 1);
  says_ended(2, 1);
  says_ended(1, 1);  // no member
  says_ended(0, 7);  // never was
  EXPECT_EQ(job.diary().lines, before);
  says_ended(0, 1);
  EXPECT_EQ(job.diary().lines.back(), "ended 1");
  all_say(remove);
  for (const int rank : {0, 2}) says_ended(rank, 2);
  EXPECT_EQ(job.diary().lines.back(), "ended 2");
  job.expect_equal_diaries();
}

}  // namespace
}  // namespace roda::negotiate
