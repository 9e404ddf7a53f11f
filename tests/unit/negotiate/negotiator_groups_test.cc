#include "core/negotiate/negotiator.h"

#include <gtest/gtest.h>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

using Lines = std::vector<std::string>;

Request grouped(int rank, const std::string& name, const std::vector<std::string>& members,
                std::vector<std::int64_t> shape = {4}) {
  Request r = make_request(rank, name, std::move(shape));
  r.group = {group_id(members), static_cast<std::int32_t>(members.size())};
  return r;
}

TEST(Negotiator, TheMembersOfAGroupWaitForOneAnother) {
  Job job(settings_for(2));
  for (int round = 0; round < 2; ++round) {  // in full, then by bits
    job.submit(grouped(0, "a", {"a", "b"}));
    job.submit(grouped(1, "a", {"a", "b"}));
    job.submit(make_request(0, "c"));
    job.submit(make_request(1, "c"));
    job.submit(grouped(1, "b", {"a", "b"}));
    EXPECT_EQ(job.diary().lines.size(), static_cast<std::size_t>(2 * round + 1));
    job.submit(grouped(0, "b", {"a", "b"}));
    EXPECT_EQ(job.diary().lines.size(), static_cast<std::size_t>(2 * round + 2));
    EXPECT_EQ(job.diary().launches.back().tensors.size(), 2u);
    for (int r : {0, 1}) job.finished(r, static_cast<std::uint64_t>(2 * round + 2));
  }
  job.expect_equal_diaries();
}

TEST(Negotiator, OneRefusedMemberEndsTheWholeGroup) {
  Job job(settings_for(2));
  for (int r : {0, 1}) job.submit(grouped(r, "a", {"a", "b", "c"}));
  for (int r : {0, 1}) job.submit(grouped(r, "b", {"a", "b", "c"}, {4 + r}));
  EXPECT_EQ(job.diary().lines, Lines{"refuse 0 b"});
  for (int r : {0, 1}) job.submit(grouped(r, "c", {"a", "b", "c"}));
  EXPECT_EQ(job.diary().lines, (Lines{"refuse 0 b", "refuse 0 a", "refuse 0 c"}));
  EXPECT_NE(job.diary().errors.at("c").find("tensor 'b': rank 0: [4]; rank 1: [5]"), std::string::npos);
  for (const char* name : {"a", "b", "c"}) {
    for (int r : {0, 1}) job.submit(grouped(r, name, {"a", "b", "c"}));
  }
  EXPECT_EQ(job.diary().lines.back(), "launch 0#1 a b c");
  job.expect_equal_diaries();
}

// Ranks that group the tensors in other ways: nobody waits for what never comes.
TEST(Negotiator, RanksMayGroupDifferently) {
  Job job(settings_for(2));
  job.submit(grouped(0, "a", {"a", "b"}));
  job.submit(grouped(0, "b", {"a", "b"}));
  job.submit(make_request(1, "a"));
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a"});
  job.submit(grouped(1, "b", {"b", "c"}));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 b");
}

// A member that one rank submitted alone, by agreement or by an error: the rest of the group does not wait for it.
TEST(Negotiator, AGroupDoesNotWaitForWhatIsSubmittedOutsideIt) {
  for (const std::int64_t rows : {4, 5}) {
    Job job(settings_for(2));
    for (const char* name : {"a", "b"}) job.submit(grouped(0, name, {"a", "b"}));
    job.submit(make_request(1, "b", {rows}));
    EXPECT_EQ(job.diary().lines, Lines{rows == 4 ? "launch 0#1 b" : "refuse 0 b"});
    job.submit(grouped(1, "a", {"a", "b"}));
    EXPECT_EQ(job.diary().lines.back(), rows == 4 ? "launch 0#2 a" : "launch 0#1 a");
    EXPECT_TRUE(job.at(0).waiting().empty());
    job.expect_equal_diaries();
  }
  Job job(settings_for(2));
  for (const char* name : {"a", "b"}) job.submit(grouped(0, name, {"a", "b"}));
  job.submit(make_request(1, "b"));
  job.submit(make_request(1, "", {}, RODA_JOIN));
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 b", "launch 0#2 a"}));
}

TEST(Negotiator, ASetThatOnlySomeRanksAddOrRemoveIsReported) {
  Job job(settings_for(3));
  const std::vector<std::int32_t> ranks{0, 2};
  for (int r : {0, 2}) job.say(r, [&](wire::RecordWriter& w) { w.add_set(ranks); });
  ASSERT_EQ(job.at(1).waiting().size(), 1u);
  EXPECT_EQ(job.at(1).waiting()[0].name, "the process set of the ranks 0, 2, to be added");
  EXPECT_EQ(job.at(1).waiting()[0].missing, std::vector<std::int32_t>{1});
  job.say(1, [&](wire::RecordWriter& w) { w.add_set(ranks); });
  EXPECT_TRUE(job.at(1).waiting().empty());
  job.say(1, [](wire::RecordWriter& w) { w.plain(wire::Item::kRemoveSet, 1); });
  ASSERT_EQ(job.at(0).waiting().size(), 1u);
  EXPECT_EQ(job.at(0).waiting()[0].name, "the process set of the ranks 0, 2, to be removed");
  EXPECT_EQ(job.at(0).waiting()[0].missing, (std::vector<std::int32_t>{0, 2}));
}

TEST(Negotiator, AGroupThatNobodyCompletesIsReported) {
  Job job(settings_for(3));
  for (int r : {0, 2}) {
    for (const char* name : {"a", "b"}) job.submit(grouped(r, name, {"a", "b"}));
  }
  job.submit(make_request(1, "b"));
  job.submit(grouped(1, "a", {"a", "b"}));
  job.submit(grouped(1, "b", {"a", "b"}));  // the others' are done
  ASSERT_EQ(job.at(0).waiting().size(), 1u);
  EXPECT_EQ(job.at(0).waiting()[0].name, "b");
  EXPECT_EQ(job.at(0).waiting()[0].missing, (std::vector<std::int32_t>{0, 2}));
  for (int r : {0, 2}) job.submit(make_request(r, "", {}, RODA_JOIN));
  EXPECT_EQ(job.diary().lines.size(), 2u);
  ASSERT_EQ(job.at(0).waiting().size(), 1u);
  EXPECT_EQ(job.at(0).waiting()[0].name.find("b (agreed on, but not 1 of the 2 tensors of its group"), 0u);
  EXPECT_EQ(job.at(0).waiting()[0].missing, std::vector<std::int32_t>{1});
}

}  // namespace
}  // namespace roda::negotiate
