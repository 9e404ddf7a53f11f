// Calls that wait for their peers begin in one order on all ranks that they have in common, whoever is ready first, and
// none waits for ever.
#include "core/execute/compose/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace roda::execute {
namespace {

using Bytes = std::vector<std::byte>;
using Order = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // (group, launch)

bool has(const std::vector<std::size_t>& group, std::size_t rank) { return std::ranges::count(group, rank) > 0; }

// The ranks of a host. What each would do next, it is ready for at random times and in a random order.
class Host {
 public:
  Host(std::vector<std::vector<std::size_t>> groups, std::uint64_t launches, unsigned seed)
      : groups_(std::move(groups)), random_(seed) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        for (std::uint64_t launch = 0; has(groups_[g], r) && launch < launches; ++launch) {
          ranks_[r].coming.push_back({g, launch, 0, 0});
        }
      }
      std::ranges::shuffle(ranks_[r].coming, random_);
    }
  }

  // The order in which each rank began its calls.
  std::vector<Order> run() {
    for (int idle = 0; idle < 1000; ++idle) {
      Rank& rank = ranks_[random_() % ranks_.size()];
      if (random_() % 2 == 0 && !rank.coming.empty()) {
        rank.ready.push_back(rank.coming.back());
        rank.coming.pop_back();
        idle = 0;
      }
      if (random_() % 2 == 0 && rank.read < log_.size()) rank.turns.hear(log_[rank.read++]), idle = 0;
      if (rank.under_way && random_() % 3 == 0) {
        rank.turns.pass(rank.ready[*rank.under_way]);
        rank.ready.erase(rank.ready.begin() + static_cast<std::ptrdiff_t>(*rank.under_way));
        rank.under_way.reset();
        idle = 0;
      }
      for (std::size_t i = 0; !rank.under_way && i < rank.ready.size(); ++i) {
        if (!rank.turns.is_next(rank.ready[i], groups_[rank.ready[i].group].size())) continue;
        rank.begun.emplace_back(rank.ready[i].group, rank.ready[i].launch);
        rank.under_way = i;
        idle = 0;
      }
      const auto unsaid = rank.turns.unsaid();
      if (unsaid.empty() || random_() % 2 == 0) continue;
      log_.emplace_back(unsaid.begin(), unsaid.end());
      rank.turns.said();
      idle = 0;
    }
    std::vector<Order> orders;
    for (const Rank& rank : ranks_) {
      EXPECT_TRUE(rank.coming.empty() && rank.ready.empty()) << "nothing may begin any more";
      orders.push_back(rank.begun);
    }
    return orders;
  }

 private:
  struct Rank {
    Turns turns;
    std::vector<Turns::Call> coming, ready;
    std::optional<std::size_t> under_way;  // of `ready`
    Order begun;
    std::size_t read = 0;
  };
  const std::vector<std::vector<std::size_t>> groups_;
  std::mt19937 random_;
  std::vector<Rank> ranks_{4};
  std::vector<Bytes> log_;
};

TEST(Turns, RanksBeginWhatTheyShareInOneOrder) {
  const std::vector<std::vector<std::size_t>> groups{{0, 1, 2, 3}, {0, 2}, {1, 2, 3}, {3}};
  for (unsigned seed = 0; seed < 100; ++seed) {
    const std::vector<Order> orders = Host(groups, 5, seed).run();
    for (std::size_t a = 0; a < orders.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const auto of_both = [&](Order order) {
          std::erase_if(order,
                        [&](const auto& call) { return !has(groups[call.first], a) || !has(groups[call.first], b); });
          return order;
        };
        ASSERT_EQ(of_both(orders[a]), of_both(orders[b])) << "ranks " << a << " and " << b << ", seed " << seed;
      }
    }
  }
}

TEST(Turns, TheNextOneWaitsUntilTheOneBeforeLiesOnTheStream) {
  Turns turns;
  const Turns::Call first{1, 1, 0, 0}, second{2, 1, 0, 0};
  for (const auto& call : {first, second}) EXPECT_FALSE(turns.is_next(call, 2)) << "nobody has heard of it";
  const Bytes said(turns.unsaid().begin(), turns.unsaid().end());
  turns.said();
  turns.hear(said);
  EXPECT_FALSE(turns.is_next(first, 2)) << "the other rank is not ready";
  turns.hear(said);
  EXPECT_FALSE(turns.is_next(second, 2));
  EXPECT_TRUE(turns.is_next(first, 2));
  turns.pass(first);
  EXPECT_TRUE(turns.is_next(second, 2));
  EXPECT_TRUE(turns.unsaid().empty()) << "said once";
}

TEST(TurnsDeathTest, RanksThatDisagreeOnWhoTakesPartEndTheProcess) {
  Turns self, other;
  const Turns::Call call{1, 1, 0, 0};
  EXPECT_FALSE(other.is_next(call, 3));
  self.hear(other.unsaid());
  self.hear(other.unsaid());
  EXPECT_DEATH(self.is_next(call, 2), "a call that all are ready for is in the order");
}

}  // namespace
}  // namespace roda::execute
