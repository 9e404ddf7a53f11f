#include "core/negotiate/negotiator.h"

#include <gtest/gtest.h>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

using Lines = std::vector<std::string>;

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

}  // namespace
}  // namespace roda::negotiate
