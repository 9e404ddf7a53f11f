#include "core/negotiate/negotiator.h"

#include <gtest/gtest.h>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

using Lines = std::vector<std::string>;

// Of a tensor of 16 bytes, the size of make_request().
Refinement refinement(Change change, const std::string& option, std::uint64_t after, std::int32_t set = 0) {
  Refinement r;
  r.set = set;
  r.change = change;
  r.of = {RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, magnitude_of(16)};
  r.launches = change == Change::kTry ? 4 : 0;
  r.after = after;
  r.option = option;
  return r;
}

void refine(Job* job, int rank, const Refinement& r) {
  job->say(rank, [&](wire::RecordWriter& w) { w.refine(r); });
}

void round(Job* job, const std::string& name, const std::vector<int>& ranks, std::int32_t set = 0) {
  for (const int rank : ranks) {
    Request request = make_request(rank, name);
    request.set = set;
    job->submit(request);
  }
}

Settings many_outstanding(int size) {
  Settings s = settings_for(size);
  s.outstanding = 100;
  return s;
}

// In full the first time, by bits after that: on every rank the same launches run what is tried.
TEST(Negotiator, AChangeMeansTheSameLaunchesOnEveryRank) {
  Job job(many_outstanding(3));
  round(&job, "a", {0, 1, 2});
  job.submit(make_request(1, "a"));
  refine(&job, 0, refinement(Change::kTry, "far/ring", 0));
  for (const int rank : {2, 0}) job.submit(make_request(rank, "a"));
  for (int i = 0; i < 3; ++i) round(&job, "a", {2, 1, 0});
  refine(&job, 0, refinement(Change::kKeep, "far/ring", 1));
  round(&job, "a", {0, 1, 2});
  EXPECT_EQ(job.diary().lines,
            (Lines{"launch 0#1 a", "change 1 of 0: far/ring", "launch 0#2 a", "launch 0#3 a by far/ring",
                   "launch 0#4 a by far/ring", "launch 0#5 a", "change 2 of 0: far/ring", "launch 0#6 a by far/ring"}));
  job.expect_equal_diaries();
}

TEST(Negotiator, AveragesAreSumsToWhoeverRefines) {
  Job job(many_outstanding(2));
  refine(&job, 0, refinement(Change::kTry, "far/ring", 0));
  refine(&job, 0, refinement(Change::kKeep, "far/ring", 1));
  for (const int rank : {0, 1}) {
    Request request = make_request(rank, "a");
    request.op = RODA_AVERAGE;
    job.submit(request);
  }
  EXPECT_EQ(job.diary().lines.back(), "launch 0#1 a by far/ring");
}

// What one record says is one unit: the change comes before what the record's announcements let go.
TEST(Negotiator, AChangeHoldsForWhatItsOwnRecordLaunches) {
  Job job(many_outstanding(2));
  refine(&job, 0, refinement(Change::kTry, "far/ring", 0));
  refine(&job, 0, refinement(Change::kKeep, "far/ring", 1));
  job.submit(make_request(1, "a"));
  job.say(0, [](wire::RecordWriter& w) {
    w.request(make_request(0, "a"));
    w.refine(refinement(Change::kTry, "far/tree", 2));
  });
  EXPECT_EQ(job.diary().lines.back(), "launch 0#1 a by far/ring");
  EXPECT_EQ(job.diary().launches.back().choice.attempt, 3u);
  job.expect_equal_diaries();
}

TEST(Negotiator, OnlyAMemberOfTheSetThatSpeaksForItMayRefine) {
  Job job(many_outstanding(3));
  refine(&job, 1, refinement(Change::kTry, "far/ring", 0));
  refine(&job, 0, refinement(Change::kTry, "far/ring", 0, 7));  // no such set
  EXPECT_TRUE(job.diary().lines.empty());
  round(&job, "a", {0, 1, 2});
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a"});
}

// Ids of sets are used again: what was kept for the one before, or is on its way for it, is nothing to the next.
TEST(Negotiator, ChoicesGoWithTheirProcessSet) {
  Job job(many_outstanding(3));
  const std::vector<std::int32_t> first{1, 2}, second{0, 2};
  const auto all = [&job](auto fill) {
    for (int rank = 0; rank < 3; ++rank) job.say(rank, fill);
  };
  all([&](wire::RecordWriter& w) { w.add_set(first); });
  refine(&job, 1, refinement(Change::kTry, "far/ring", 0, 1));
  refine(&job, 1, refinement(Change::kKeep, "far/ring", 1, 1));
  round(&job, "a", {1, 2}, 1);
  EXPECT_EQ(job.diary().lines.back(), "launch 1#1 a by far/ring");
  all([](wire::RecordWriter& w) { w.plain(wire::Item::kRemoveSet, 1); });
  all([&](wire::RecordWriter& w) { w.add_set(second); });
  refine(&job, 1, refinement(Change::kTry, "far/tree", 2, 1));
  round(&job, "a", {0, 2}, 1);
  EXPECT_EQ(job.diary().lines.back(), "launch 1#1 a");
  job.expect_equal_diaries();
}

// A joined rank gives zeros to what is tried as to anything else; after the end of the job nothing is refined.
TEST(Negotiator, TriesGoOnPastJoinsAndEndWithTheJob) {
  Job job(many_outstanding(2));
  refine(&job, 0, refinement(Change::kTry, "far/ring", 0));
  job.submit(make_request(0, "", {}, RODA_JOIN));
  for (int i = 0; i < 2; ++i) job.submit(make_request(1, "a" + std::to_string(i)));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 a1 by far/ring");
  job.say(1, [](wire::RecordWriter& w) { w.plain(wire::Item::kShutdown, 0); });
  refine(&job, 0, refinement(Change::kKeep, "far/ring", 1));
  EXPECT_EQ(job.diary().lines.back(), "shutdown by 1");
  job.expect_equal_diaries();
}

TEST(Negotiator, ARefinementThatIsMalformedEndsTheJob) {
  Job job(settings_for(2));
  wire::RecordWriter writer;
  writer.begin(0, 0);
  writer.refine(refinement(static_cast<Change>(9), "far/ring", 0));
  Diary diary;
  const Status status = job.at(0).apply(writer.end(), &diary);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("a refinement that is none"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace roda::negotiate
