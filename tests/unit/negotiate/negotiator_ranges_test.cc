// Cached tensors announced by ranges of ranks: what follows is what a plain count of ranks says, and what follows when
// the same is said rank by rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/unit/negotiate/simulated_job.h"

namespace roda::negotiate {
namespace {

TEST(Members, RangesMapAsTheirRanksDo) {
  for (const std::vector<std::int32_t>& ranks :
       {std::vector<std::int32_t>{0, 1, 2, 3, 4}, {3, 4, 5}, {0, 2, 3, 4, 8, 9}, {7}}) {
    const Members members(ranks);
    for (std::int32_t first = 0; first < 11; ++first) {
      const auto at = std::find(ranks.begin(), ranks.end(), first);
      EXPECT_EQ(members.position(first), at == ranks.end() ? -1 : at - ranks.begin());
      for (std::int32_t last = first; last < 11; ++last) {
        // Its first rank by itself, then the rest.
        const std::vector<wire::RankRange> ranges =
            first == last ? std::vector<wire::RankRange>{{first, last}}
                          : std::vector<wire::RankRange>{{first, first}, {first + 1, last}};
        wire::RankRanges got, expected;
        bool all = true;
        for (std::int32_t r = first; r <= last; ++r) {
          all = all && members.position(r) >= 0;
          expected.add(members.position(r), members.position(r));
        }
        ASSERT_EQ(members.positions(ranges, &got), all) << first << " to " << last;
        EXPECT_TRUE(!all || got == expected) << first << " to " << last;
      }
    }
  }
}

// Who has announced what: a set of numbers for each tensor.
struct Counted {
  std::vector<std::int32_t> ranks;
  std::set<std::int32_t> joined;
  std::map<std::string, std::set<std::int32_t>> arrived;

  bool is_complete(const std::string& name) const {
    const auto& here = arrived.at(name);
    return !here.empty() && std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
      return here.count(rank) == 1 || joined.count(rank) == 1;
    });
  }
};

class RangedJob {
 public:
  static constexpr int kTensors = 5;

  explicit RangedJob(unsigned seed) : random_(seed), size_(2 + static_cast<int>(random_() % 30)) {
    Settings settings = settings_for(size_);
    settings.outstanding = 1 << 20;
    settings.buckets.threshold = 0;  // every tensor is launched by itself
    by_ranges_ = std::make_unique<Negotiator>(settings, 0);
    by_ranks_ = std::make_unique<Negotiator>(settings, 0);
    std::vector<std::int32_t> all(static_cast<std::size_t>(size_)), block, some;
    std::iota(all.begin(), all.end(), 0);
    block.assign(all.begin() + size_ / 3, all.end());
    std::sample(all.begin(), all.end(), std::back_inserter(some), 1 + size_ / 2, random_);
    add_set(0, all);
    for (const auto& ranks : {block, some}) {
      const std::int32_t id = by_ranges_->add_static_set(ranks);
      EXPECT_EQ(by_ranks_->add_static_set(ranks), id);
      add_set(id, ranks);
    }
    fill_caches();
  }

  void step() {
    Counted& set = sets_[id_];
    if (random_() % 12 == 0) return join(&set);
    std::vector<std::int32_t> free, who;
    for (const std::int32_t rank : set.ranks) {
      if (set.joined.count(rank) == 0) free.push_back(rank);
    }
    // Mostly neighbours, as hosts are.
    const std::size_t first = random_() % free.size(), count = 1 + random_() % free.size();
    if (random_() % 3 == 0) {
      std::sample(free.begin(), free.end(), std::back_inserter(who), static_cast<long>(count), random_);
    } else {
      who.assign(free.begin() + static_cast<long>(first),
                 free.begin() + static_cast<long>(std::min(free.size(), first + count)));
    }
    std::uint64_t word = 0;
    for (int t = 0; t < kTensors; ++t) {
      auto& arrived = set.arrived[name_of(t)];
      const bool is_new = std::none_of(who.begin(), who.end(), [&](std::int32_t r) { return arrived.count(r) == 1; });
      if (!is_new || random_() % 3 == 0) continue;
      arrived.insert(who.begin(), who.end());
      word |= std::uint64_t{1} << bits_[{id_, t}];
    }
    if (word == 0) return;
    say_bits(who, word);
    compare(&set);
  }

  void next_set() { id_ = (id_ + 1) % 3; }

 private:
  static std::string name_of(int t) { return "tensor" + std::to_string(t); }

  void add_set(std::int32_t id, const std::vector<std::int32_t>& ranks) {
    sets_[id].ranks = ranks;
    for (int t = 0; t < kTensors; ++t) sets_[id].arrived[name_of(t)];
  }

  void fill_caches() {
    for (auto& [id, set] : sets_) {
      for (int t = 0; t < kTensors; ++t) {
        for (const std::int32_t rank : set.ranks) say_request(rank, id, name_of(t), RODA_ALLREDUCE);
        bits_[{id, t}] = by_ranges_->cached_bit(request(set.ranks.front(), id, name_of(t), RODA_ALLREDUCE));
        ASSERT_GE((bits_[{id, t}]), 0);
      }
    }
    range_diary_.lines.clear();
    rank_diary_.lines.clear();
  }

  static Request request(std::int32_t rank, std::int32_t id, const std::string& name, int collective) {
    Request r = make_request(rank, name, {4}, collective);
    r.set = id;
    return r;
  }

  void say_request(std::int32_t rank, std::int32_t id, const std::string& name, int collective) {
    wire::RecordWriter writer;
    writer.begin(rank, by_ranges_->applied());
    writer.request(request(rank, id, name, collective));
    ASSERT_TRUE(by_ranges_->apply(writer.end(), &range_diary_).ok());
    ASSERT_TRUE(by_ranks_->apply(writer.end(), &rank_diary_).ok());
  }

  void say_bits(std::vector<std::int32_t> who, std::uint64_t word) {
    wire::RankRanges ranges;
    for (const std::int32_t rank : who) ranges.add(rank, rank);
    wire::RecordWriter writer;
    writer.begin(who.front(), UINT64_MAX);
    writer.bits(id_, 0, std::span(&word, 1), ranges.ranges());
    ASSERT_TRUE(by_ranges_->apply(writer.end(), &range_diary_).ok());
    std::shuffle(who.begin(), who.end(), random_);
    for (const std::int32_t rank : who) {
      writer.begin(rank, UINT64_MAX);
      writer.bits(id_, 0, std::span(&word, 1));
      ASSERT_TRUE(by_ranks_->apply(writer.end(), &rank_diary_).ok());
    }
  }

  void join(Counted* set) {
    for (const std::int32_t rank : set->ranks) {
      if (set->joined.count(rank) == 1) continue;
      set->joined.insert(rank);
      say_request(rank, id_, "join.", RODA_JOIN);
      compare(set, rank);
      return;
    }
  }

  // Since the last time, whatever its order within one announcement. `joined`: who joined just now, -1: nobody.
  void compare(Counted* set, std::int32_t joined = -1) {
    std::vector<std::string> expected;
    for (auto& [name, arrived] : set->arrived) {
      if (!set->is_complete(name)) continue;
      expected.push_back(name);
      arrived.clear();
    }
    std::string end;
    if (set->joined.size() == set->ranks.size()) {
      end = "joined " + std::to_string(joined);
      set->joined.clear();
    }
    for (Diary* diary : {&range_diary_, &rank_diary_}) {
      std::vector<std::string> launched;
      std::string last;
      for (const std::string& line : diary->lines) {
        if (line.starts_with("launch ")) {
          launched.push_back(line.substr(line.rfind(' ') + 1));
        } else {
          last = line;
        }
      }
      std::sort(launched.begin(), launched.end());
      ASSERT_EQ(launched, expected);
      ASSERT_EQ(last, end);
      diary->lines.clear();
    }
    compare_waiting();
  }

  void compare_waiting() const {
    std::map<std::pair<std::int32_t, std::string>, std::vector<std::int32_t>> expected;
    for (const auto& [id, set] : sets_) {
      for (const auto& [name, arrived] : set.arrived) {
        if (arrived.empty()) continue;
        auto& missing = expected[{id, name}];
        for (const std::int32_t rank : set.ranks) {
          if (arrived.count(rank) == 0 && set.joined.count(rank) == 0) missing.push_back(rank);
        }
      }
    }
    for (const Negotiator* negotiator : {by_ranges_.get(), by_ranks_.get()}) {
      std::map<std::pair<std::int32_t, std::string>, std::vector<std::int32_t>> got;
      for (const auto& waiting : negotiator->waiting()) got[{waiting.set, waiting.name}] = waiting.missing;
      ASSERT_EQ(got, expected);
    }
  }

  std::mt19937 random_;
  int size_;
  std::int32_t id_ = 0;
  std::unique_ptr<Negotiator> by_ranges_, by_ranks_;
  Diary range_diary_, rank_diary_;
  std::map<std::int32_t, Counted> sets_;
  std::map<std::pair<std::int32_t, int>, int> bits_;
};

TEST(Negotiator, RangesOfRanksCountAsTheirRanksDo) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RangedJob job(seed);
    for (int i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i, job.next_set()) job.step();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

// Bits that came by ranges, and then a request in full that differs: everybody who announced the bit is heard.
TEST(Negotiator, ArrivalsByRangesAreTakenOverInFull) {
  Job job(settings_for(6));
  for (int r = 0; r < 6; ++r) job.submit(make_request(r, "a", {4}));
  const wire::RankRange who[] = {{0, 1}, {3, 4}};
  const std::uint64_t word = 1;
  job.say(3, [&](wire::RecordWriter& w) { w.bits(0, 0, std::span(&word, 1), who); });
  for (int r : {2, 5}) job.submit(make_request(r, "a", {6}));
  EXPECT_EQ(job.diary().lines.back(), "refuse 0 a");
  EXPECT_NE(job.diary().errors.at("a").find("ranks 0, 1, 3, 4: [4]; ranks 2, 5: [6]"), std::string::npos)
      << job.diary().errors.at("a");
  for (int r = 0; r < 6; ++r) EXPECT_EQ(job.diary(r).freed.size(), r == 2 || r == 5 ? 0u : 1u) << r;
  job.expect_equal_diaries();
}

TEST(Negotiator, BitsOfARankOutsideTheSetAreMalformed) {
  Negotiator negotiator(settings_for(6), 0);
  const std::int32_t id = negotiator.add_static_set({0, 1, 4, 5});
  Diary diary;
  for (const wire::RankRange range : {wire::RankRange{1, 4}, {2, 3}, {5, 6}, {4, 4}}) {
    const std::uint64_t word = 1;
    wire::RecordWriter writer;
    writer.begin(0, 0);
    writer.bits(id, 0, std::span(&word, 1), std::span(&range, 1));
    EXPECT_EQ(negotiator.apply(writer.end(), &diary).ok(), range.first == 4) << range.first;
  }
}

}  // namespace
}  // namespace roda::negotiate
