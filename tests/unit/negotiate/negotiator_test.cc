#include "core/negotiate/negotiator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

using Lines = std::vector<std::string>;

TEST(Negotiator, LaunchesWhenTheLastRankHasSpoken) {
  Job job(settings_for(3));
  job.submit(make_request(1, "a"));
  job.submit(make_request(0, "a"));
  EXPECT_TRUE(job.diary().lines.empty());
  job.submit(make_request(2, "a"));
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a"});
  job.expect_equal_diaries();
}

TEST(Negotiator, ASecondRoundCostsOneBit) {
  Job job(settings_for(2));
  for (int r : {0, 1}) job.submit(make_request(r, "a"));
  for (int r : {0, 1}) EXPECT_EQ(job.at(r).cached_bit(make_request(r, "a")), 0);
  for (int r : {1, 0}) job.submit(make_request(r, "a"));
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 a", "launch 0#2 a"}));
}

TEST(Negotiator, TellsWhoCameLast) {
  Job job({.size = 4});
  for (const int rank : {3, 0, 1, 2}) job.submit(make_request(rank, "a"));
  for (const int rank : {0, 2, 3, 1}) job.submit(make_request(rank, "a"));
  const std::uint64_t word = 1;
  const wire::RankRange others[] = {{1, 3}};
  job.submit(make_request(0, "a"));
  job.say(3, [&](wire::RecordWriter& w) { w.bits(0, 0, std::span(&word, 1), others, 2); });
  for (const Diary& diary : job.diaries) EXPECT_EQ(diary.came_last.at("a"), (std::vector<std::int32_t>{2, 1, 2}));
  wire::RecordWriter writer;
  writer.begin(1, job.at(0).applied());
  writer.bits(0, 0, std::span(&word, 1), others, 4);
  Diary diary;
  EXPECT_NE(job.at(0).apply(writer.end(), &diary).message().find("came last"), std::string::npos);
}

TEST(Negotiator, HandsOnThatARankIsLate) {
  Job job({.size = 4});
  job.say(1, [](wire::RecordWriter& w) { w.late({.rank = 3}); });
  EXPECT_EQ(job.diary(2).lines, std::vector<std::string>{"late 3"});
  wire::RecordWriter writer;
  writer.begin(1, job.at(0).applied());
  writer.late({.rank = 4});
  Diary diary;
  EXPECT_FALSE(job.at(0).apply(writer.end(), &diary).ok()) << "there is no such rank";
}

TEST(Negotiator, BatchesWhatBecomesReadyWhileBusy) {
  Job job(settings_for(2));
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    for (int r : {0, 1}) job.submit(make_request(r, name));
  }
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 a", "launch 0#2 b"}));
  EXPECT_TRUE(job.at(0).wants_finished(0));
  job.finished(1, 1);
  EXPECT_EQ(job.diary().lines.back(), "launch 0#3 c d e");
  job.finished(0, 1);  // the same news again changes nothing
  EXPECT_EQ(job.diary().lines.size(), 3u);
  job.expect_equal_diaries();
}

TEST(Negotiator, OneRecordIsOneUnit) {
  Job job(settings_for(2));
  auto both = [](int rank) {
    return [rank](wire::RecordWriter& w) {
      w.request(make_request(rank, "a"));
      w.request(make_request(rank, "b"));
    };
  };
  job.say(0, both(0));
  job.say(1, both(1));
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a b"});
}

// GPU numbers may differ between ranks, the kind of memory may not.
TEST(Negotiator, TensorsLieInMemoryOfOneKind) {
  Job job(settings_for(3));
  const auto submit = [&](const std::vector<int>& devices) {
    for (int r = 0; r < 3; ++r) {
      Request request = make_request(r, "placed");
      request.device = devices[static_cast<std::size_t>(r)];
      job.submit(request);
    }
  };
  submit({0, 2, -1});
  EXPECT_EQ(job.diary().lines, Lines{"refuse 0 placed"});
  const std::string& text = job.diary().errors.at("placed");
  EXPECT_EQ(text.find("Mismatched ALLREDUCE CPU/GPU device selection: One rank specified device GPU, but another rank "
                      "specified device CPU."),
            0u)
      << text;
  EXPECT_NE(text.find("rank 2: CPU; ranks 0, 1: GPU"), std::string::npos) << text;
  submit({0, 2, 1});
  EXPECT_EQ(job.diary().lines.back(), "launch 0#1 placed");
}

TEST(Negotiator, WhereTensorsLieIsNumberedOnce) {
  const auto placements = [](const std::vector<std::vector<int>>& submitted) {
    Settings settings = settings_for(2);
    settings.buckets.threshold = 0;  // every tensor is launched by itself
    Job job(settings);
    for (std::size_t i = 0; i < submitted.size(); ++i) {
      for (int r : {0, 1}) {
        Request request = make_request(r, std::to_string(i));
        request.device = submitted[i][static_cast<std::size_t>(r)];
        job.submit(request);
      }
    }
    std::vector<std::int32_t> found;
    for (const Launch& launch : job.diary().launches) found.push_back(launch.tensors.front()->placement);
    return found;
  };
  EXPECT_EQ(placements({{0, 2}, {2, 0}, {0, 2}, {-1, -1}}), (std::vector<std::int32_t>{0, 1, 0, -1}));
}

TEST(Negotiator, MismatchEndsTheTensorOnAllRanksAndFreesItsName) {
  Job job(settings_for(3));
  job.submit(make_request(0, "a", {4}));
  job.submit(make_request(1, "a", {5}));
  job.submit(make_request(2, "a", {4}));
  EXPECT_EQ(job.diary().lines, Lines{"refuse 0 a"});
  const std::string& text = job.diary().errors.at("a");
  EXPECT_EQ(text.find("Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [4], but another rank sent "
                      "a tensor of shape [5]."),
            0u);
  EXPECT_NE(text.find("ranks 0, 2: [4]; rank 1: [5]"), std::string::npos) << text;
  for (int r : {0, 1, 2}) job.submit(make_request(r, "a", {4}));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#1 a");
}

TEST(Negotiator, TruthValuesAreNeitherAveragedNorScaled) {
  Job job(settings_for(2));
  auto submit = [&](int collective, int op, double postscale, int odd_dtype) {
    for (int r : {0, 1}) {
      Request request = make_request(r, "a", {4}, collective, r == 0 ? RODA_BOOL : odd_dtype);
      request.op = op;
      request.postscale = postscale;
      job.submit(std::move(request));
    }
    return job.diary().lines.back();
  };
  for (int collective : {RODA_ALLREDUCE, RODA_REDUCESCATTER}) {
    EXPECT_EQ(submit(collective, RODA_AVERAGE, 1.0, RODA_BOOL), "refuse 0 a");
    EXPECT_NE(job.diary().errors.at("a").find("bool tensor 'a'"), std::string::npos);
    EXPECT_EQ(submit(collective, RODA_SUM, 0.5, RODA_BOOL), "refuse 0 a");
  }
  EXPECT_EQ(submit(RODA_ALLREDUCE, RODA_AVERAGE, 1.0, RODA_FLOAT32), "refuse 0 a");
  EXPECT_EQ(job.diary().errors.at("a").find("Mismatched data types"), 0u);
  EXPECT_EQ(submit(RODA_ALLREDUCE, RODA_MAX, 1.0, RODA_BOOL), "launch 0#1 a");
  EXPECT_EQ(submit(RODA_BROADCAST, RODA_AVERAGE, 1.0, RODA_BOOL), "launch 0#2 a");  // its op means nothing
  job.expect_equal_diaries();
}

TEST(Negotiator, AChangedTensorIsNegotiatedAgain) {
  Job job(settings_for(2));
  for (int r : {0, 1}) job.submit(make_request(r, "a", {4}));
  job.submit(make_request(0, "a", {4}));  // by its bit
  job.submit(make_request(1, "a", {6}));  // in full: the cached entry goes, rank 0's announcement stays
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 a", "refuse 0 a"}));
  EXPECT_EQ(job.diary(0).freed, std::vector<int>{0});
  EXPECT_TRUE(job.diary(1).freed.empty());
  for (int r : {0, 1}) job.submit(make_request(r, "a", {6}));
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 a");
  job.expect_equal_diaries();
}

// Names that are used in turn meet every shape of a step: each costs one bit from its second time on.
TEST(Negotiator, ANameHasAnEntryForEachOfItsShapes) {
  Job job(settings_for(2));
  const auto submit = [&](std::int64_t rows) {
    for (int r : {0, 1}) job.submit(make_request(r, "a", {rows}));
  };
  for (const std::int64_t rows : {1, 2, 1, 2}) submit(rows);
  EXPECT_EQ(job.at(0).cached_bit(make_request(0, "a", {1})), 0);
  EXPECT_EQ(job.at(0).cached_bit(make_request(0, "a", {2})), 1);
  EXPECT_EQ(job.diary().launches.size(), 2u);  // the others wait for these to be finished
  // Ranks that mean different ones disagree: by two bits, and by a bit and in full, whoever comes first.
  for (const std::int64_t other : {2, 3}) {
    for (int first : {0, 1}) {
      submit(1);
      submit(2);
      job.submit(make_request(first, "a", {1}));
      job.submit(make_request(1 - first, "a", {other}));
      EXPECT_EQ(job.diary().lines.back(), "refuse 0 a") << other << first;
      EXPECT_TRUE(job.at(0).waiting().empty());
    }
  }
  for (std::int64_t rows = 11; rows <= 19; ++rows) submit(rows);
  EXPECT_EQ(job.at(0).cached_bit(make_request(0, "a", {11})), -1) << "the oldest of nine has made room";
  EXPECT_GE(job.at(0).cached_bit(make_request(0, "a", {12})), 0);
  job.expect_equal_diaries();
}

TEST(Negotiator, AllgatherRowsMayDiffer) {
  Job job(settings_for(2));
  job.submit(make_request(0, "g", {3, 2}, RODA_ALLGATHER));
  job.submit(make_request(1, "g", {1, 2}, RODA_ALLGATHER));
  ASSERT_EQ(job.diary().launches.size(), 1u);
  EXPECT_EQ(job.diary().launches[0].tensors[0]->rows, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(job.at(1).cached_bit(make_request(1, "g", {1, 2}, RODA_ALLGATHER)), 0);
  EXPECT_EQ(job.at(1).cached_bit(make_request(1, "g", {3, 2}, RODA_ALLGATHER)), -1);
}

TEST(Negotiator, ABitThatMeantSomethingElseIsAnnouncedAgain) {
  Settings settings = settings_for(2);
  settings.cache_capacity = 1;
  Job job(settings);
  for (int r : {0, 1}) job.submit(make_request(r, "a"));
  const std::uint64_t then = job.at(0).applied();
  for (int r : {0, 1}) job.submit(make_request(r, "b"));  // takes a's place
  // Rank 0 looked "a" up before that and says so.
  wire::RecordWriter writer;
  writer.begin(0, then);
  const std::uint64_t word = 1;
  writer.bits(0, 0, {&word, 1});
  const auto bytes = writer.end();
  for (int r : {0, 1}) {
    ASSERT_TRUE(job.at(r).apply({bytes.data(), bytes.size()}, &job.diaries[static_cast<std::size_t>(r)]).ok());
  }
  EXPECT_EQ(job.diary(0).again, std::vector<int>{0});
  EXPECT_TRUE(job.diary(1).again.empty());
  EXPECT_EQ(job.diary().launches.size(), 2u);
}

// The other order: others announce the name in full while the announcement by its bit is on its way.
TEST(Negotiator, ABitThatOthersContradictIsTakenOverInFull) {
  Job job(settings_for(2));
  for (int r : {0, 1}) job.submit(make_request(r, "g", {r + 1}, RODA_ALLGATHER));
  const std::uint64_t looked_up = job.at(1).applied();
  ASSERT_EQ(job.at(1).cached_bit(make_request(1, "g", {2}, RODA_ALLGATHER)), 0);
  job.submit(make_request(0, "g", {5}, RODA_ALLGATHER));
  EXPECT_EQ(job.diary().contradicted, std::vector<int>{0});
  wire::RecordWriter writer;
  writer.begin(1, looked_up);
  const std::uint64_t word = 1;
  writer.bits(0, 0, {&word, 1});
  const auto bytes = writer.end();
  for (int r : {0, 1}) {
    ASSERT_TRUE(job.at(r).apply({bytes.data(), bytes.size()}, &job.diaries[static_cast<std::size_t>(r)]).ok());
  }
  EXPECT_EQ(job.diary(1).freed, std::vector<int>{0});
  EXPECT_EQ(job.diary().contradicted, (std::vector<int>{0, 0})) << "and stands for nothing now";
  EXPECT_TRUE(job.diary(1).again.empty());
  EXPECT_EQ(job.diary().lines.back(), "launch 0#2 g");
  EXPECT_EQ(job.diary().launches.back().tensors[0]->rows, (std::vector<std::int64_t>{5, 2}));
  job.expect_equal_diaries();
}

TEST(Negotiator, EvictsTheLeastRecentlyUsed) {
  Settings settings = settings_for(1);
  settings.cache_capacity = 2;
  settings.outstanding = 100;
  Job job(settings);
  for (const char* name : {"a", "b", "a", "c"}) job.submit(make_request(0, name));
  EXPECT_EQ(job.at(0).cached_bit(make_request(0, "b")), -1);
  EXPECT_GE(job.at(0).cached_bit(make_request(0, "a")), 0);
  EXPECT_GE(job.at(0).cached_bit(make_request(0, "c")), 0);
}

TEST(Negotiator, HoldsReadyTensorsUntilTheFlush) {
  Settings settings = settings_for(2);
  settings.hold = true;
  Job job(settings);
  for (const char* name : {"a", "b"}) {
    for (int r : {0, 1}) job.submit(make_request(r, name));
  }
  EXPECT_TRUE(job.diary().lines.empty());
  const auto flush = [&](wire::RecordWriter& w) { w.number(wire::Item::kFlush, 0, job.at(1).ready_count(0)); };
  EXPECT_TRUE(job.at(0).holds_back(0));
  job.say(1, flush);
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a b"});
  EXPECT_FALSE(job.at(0).holds_back(0));
}

// Ranks that flushed again and again what waits for a slow one would fill its log.
TEST(Negotiator, WhatIsFlushedAndWaitsForALaunchToEndIsNotHeldBack) {
  Settings settings = settings_for(1);
  settings.hold = true;
  settings.outstanding = 1;
  Job job(settings);
  const auto flush = [&](wire::RecordWriter& w) { w.number(wire::Item::kFlush, 0, job.at(0).ready_count(0)); };
  for (const char* name : {"a", "b"}) {
    job.submit(make_request(0, name));
    EXPECT_TRUE(job.at(0).holds_back(0));
    job.say(0, flush);
    EXPECT_FALSE(job.at(0).holds_back(0));
  }
  EXPECT_EQ(job.diary().lines, Lines{"launch 0#1 a"});
}

// Cut by bytes and not by what the devices have done: however many are on their way, and hosts' limits are their own.
TEST(Negotiator, TensorsOnDevicesFillBucketsUntilTheirKindIsClosed) {
  Settings settings = settings_for(2);
  settings.outstanding = 1;
  settings.buckets.complete = 32;
  Job job(settings);
  const auto submit = [&job](const char* name, int device) {
    for (int r : {0, 1}) {
      Request request = make_request(r, name);
      request.device = device;
      job.submit(request);
    }
  };
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) submit(name, 0);
  submit("host", -1);
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 a", "launch 0#2 b c", "launch 0#3 d e", "launch 0#4 host"}));
  EXPECT_FALSE(job.at(0).wants_finished(0));
  EXPECT_TRUE(job.at(0).is_speaker(0));
  EXPECT_FALSE(job.at(1).is_speaker(0));
  const std::uint64_t kind = kind_of(make_request(0, "f"));
  for (int r : {0, 1}) job.say(r, [&](wire::RecordWriter& w) { w.number(wire::Item::kClose, 0, kind); });
  EXPECT_EQ(job.diary().lines.back(), "launch 0#5 f");
  submit("a", 0);
  EXPECT_EQ(job.diary().lines.back(), "launch 0#6 a");
  submit("b", 0);
  for (int r : {1, 0}) job.submit(make_request(r, "join", {}, RODA_JOIN));
  EXPECT_EQ(job.diary().lines[job.diary().lines.size() - 2], "launch 0#7 b") << "what was agreed on comes before";
  job.expect_equal_diaries();
}

// What was ready before goes by the rules of its time, on all ranks.
TEST(Negotiator, ChangesItsRulesWhereTheLogSaysSo) {
  Job job(settings_for(2));
  const auto submit = [&job](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      for (int r : {0, 1}) job.submit(make_request(r, name));
    }
  };
  const auto finish = [&job](std::uint64_t launches) {
    for (int r : {0, 1}) job.say(r, [=](wire::RecordWriter& w) { w.number(wire::Item::kFinished, 0, launches); });
  };
  submit({"a", "b", "c", "d"});
  finish(2);
  submit({"e", "f", "g"});
  job.say(0, [](wire::RecordWriter& w) { w.tuning({0, 0, 3, "x"}); });
  finish(4);
  submit({"h", "i"});
  EXPECT_EQ(job.diary().lines, (Lines{"launch 0#1 a", "launch 0#2 b", "launch 0#3 c d", "launch 0#4 e", "launch 0#5 f",
                                      "launch 0#6 g", "launch 0#7 h"}));
  std::vector<std::uint32_t> rules;
  for (const Launch& launch : job.diary(1).launches) rules.push_back(launch.rules);
  EXPECT_EQ(rules, (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1}));
  job.expect_equal_diaries();
}

TEST(Negotiator, ShutdownEndsWithEveryRankDrained) {
  Job job(settings_for(2));
  job.say(1, [](wire::RecordWriter& w) { w.shutdown("called hvd.shutdown()"); });
  for (int r : {0, 1}) job.submit(make_request(r, "late"));
  for (int r : {0, 1}) job.say(r, [](wire::RecordWriter& w) { w.plain(wire::Item::kDrained, 0); });
  EXPECT_EQ(job.diary().lines, (Lines{"shutdown by 1 who called hvd.shutdown()", "drained"}));
}

TEST(Negotiator, RefusesARecordThatIsNoRecord) {
  Negotiator negotiator(settings_for(2), 0);
  Diary diary;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    wire::RecordWriter writer;
    writer.begin(static_cast<int>(random() % 2), 0);
    writer.request(make_request(0, "x" + std::to_string(i)));
    const auto good = writer.end();
    std::vector<std::byte> bytes(good.begin(), good.end());
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    static_cast<void>(negotiator.apply(bytes, &diary));  // an error or not, but no crash: the sanitizers watch
  }
}

// Random orders, overlapping sets, mixed full and cached announcements: all ranks launch the same things in the same
// order, everything is launched exactly once per round, and nothing is left waiting.
class RandomOrders : public ::testing::TestWithParam<int> {};

TEST_P(RandomOrders, AllRanksDecideAlike) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const int size = 2 + GetParam() % 5;
  Settings settings = settings_for(size);
  settings.cache_capacity = 8;
  Job job(settings);
  std::vector<std::vector<std::int32_t>> sets{job.at(0).members(0)};
  for (int s = 0; s < 3; ++s) {
    std::set<std::int32_t> ranks;
    while (ranks.size() < 2) ranks.insert(static_cast<int>(random() % static_cast<unsigned>(size)));
    std::vector<std::int32_t> sorted(ranks.begin(), ranks.end());
    if (std::find(sets.begin(), sets.end(), sorted) != sets.end()) continue;
    for (auto& rank : job.ranks) rank->add_static_set(sorted);
    sets.push_back(sorted);
  }
  std::size_t submitted = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::deque<Request>> todo(static_cast<std::size_t>(size));
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (int t = 0; t < 5; ++t, ++submitted) {
        for (const std::int32_t r : sets[s]) {
          Request request = make_request(r, "t" + std::to_string(t), {1 + t + round % 2});
          request.set = static_cast<int>(s);
          todo[static_cast<std::size_t>(r)].push_back(request);
        }
      }
    }
    for (auto& list : todo) std::shuffle(list.begin(), list.end(), random);
    std::size_t left = 1;
    while (left > 0) {
      left = 0;
      auto& list = todo[random() % todo.size()];
      if (!list.empty()) {
        job.submit(list.front());
        list.pop_front();
      }
      for (const auto& l : todo) left += l.size();
    }
    for (int done = 0; done < 100; ++done) {
      for (std::size_t s = 0; s < sets.size(); ++s) {
        std::uint64_t last = 0;
        for (const Launch& l : job.diary().launches) {
          if (l.set == static_cast<int>(s)) last = l.sequence;
        }
        job.finished(sets[s].front(), last, static_cast<int>(s));
      }
    }
  }
  std::size_t launched = 0;
  for (const Launch& l : job.diary().launches) launched += l.tensors.size();
  EXPECT_EQ(launched, submitted);
  EXPECT_TRUE(job.at(0).waiting().empty());
  job.expect_equal_diaries();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOrders, ::testing::Range(0, 20));

}  // namespace
}  // namespace roda::negotiate
