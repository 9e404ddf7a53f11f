// What a table says to a query: order, expansion over the offers, bans, reasons.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithms/select/table.h"

namespace roda::select {
namespace {

using schedule::Collective;

constexpr std::uint32_t kOneSided = schedule::kNeedsSignals | schedule::kNeedsGet;
const Offer kMapped = {"mapped", kOneSided | schedule::kNeedsMessages, false};
const Offer kVendor = {"vendor", schedule::kNeedsMessages, true};
const Offer kPlain = {"plain", schedule::kNeedsMessages, false};

Table table(const std::string& text) {
  std::string error;
  const auto parsed = Table::parse(text, &error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(Table());
}

// One line for each verdict: "+ transport/algorithm: reason" for a usable one, "- ..." for another.
std::vector<std::string> ranked(const std::string& text, const Query& query, const std::vector<Offer>& offers) {
  std::vector<std::string> lines;
  for (const Verdict& verdict : table(text).rank(query, offers)) {
    lines.push_back((verdict.usable ? "+ " : "- ") + verdict.option.transport + "/" + verdict.option.algorithm + ": " +
                    verdict.reason);
  }
  return lines;
}

using Lines = std::vector<std::string>;
const Query kQuery = {Collective::kAllreduce, Memory::kHost, 1000, 4};

// RODA_DETERMINISTIC leaves those that sum in rank order, over what they need; other collectives don't care.
TEST(Rank, InRankOrderExcludesTheOthersWithTheReason) {
  Query query = kQuery;
  query.in_rank_order = true;
  Offer mapped = kMapped;
  mapped.maps = true;
  const std::string no = "RODA_DETERMINISTIC: it does not reduce every element in rank order";
  EXPECT_EQ(ranked("allreduce = */native, */ring, */twoshot, */ordered", query, {kVendor, mapped, kMapped}),
            (Lines{"- vendor/native: " + no, "- mapped/native: mapped has no native allreduce for this",
                   "- vendor/ring: " + no, "- mapped/ring: " + no,
                   "- vendor/twoshot: vendor does not offer signals, get", "+ mapped/twoshot: given by allreduce",
                   "+ vendor/ordered: given by allreduce", "+ mapped/ordered: given by allreduce"}));
  EXPECT_EQ(
      ranked("allreduce = */twoshot", query, {kMapped}),
      Lines{"- mapped/twoshot: RODA_DETERMINISTIC: mapped fetches what it reduces, and would round after each rank"});
  query.collective = Collective::kBroadcast;
  EXPECT_EQ(ranked("broadcast = */binomial", query, {kPlain}), Lines{"+ plain/binomial: given by broadcast"});
}

TEST(Rank, StarGoesThroughTheOffersInOrder) {
  EXPECT_EQ(ranked("allreduce = */ring", kQuery, {kPlain, kMapped}),
            (Lines{"+ plain/ring: given by allreduce", "+ mapped/ring: given by allreduce"}));
  EXPECT_EQ(ranked("allreduce = */ring", kQuery, {kMapped, kPlain})[0], "+ mapped/ring: given by allreduce");
  EXPECT_EQ(ranked("allreduce = */ring", kQuery, {}), Lines{});
}

TEST(Rank, ReasonsSayWhatIsMissing) {
  EXPECT_EQ(ranked("allreduce = */oneshot, */native, other/ring", kQuery, {kPlain}),
            (Lines{"- plain/oneshot: plain does not offer signals, get",
                   "- plain/native: plain has no native allreduce for this",
                   "- other/ring: no transport other is offered here"}));
}

TEST(Rank, RulesMatchByEveryLimit) {
  const std::string text = "allreduce@host:100-1K[2-4] = plain/ring";
  const auto count = [&](const Query& query) { return ranked(text, query, {kPlain}).size(); };
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 100, 2}), 1u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 1023, 4}), 1u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 99, 2}), 0u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 1024, 2}), 0u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 100, 1}), 0u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kHost, 100, 5}), 0u);
  EXPECT_EQ(count({Collective::kAllreduce, Memory::kCuda, 100, 2}), 0u);
  EXPECT_EQ(count({Collective::kAllgather, Memory::kHost, 100, 2}), 0u);
}

TEST(Rank, EdgesAreWhereRulesBeginAndEnd) {
  const auto table =
      Table::parse("allreduce:0-64K = a/ring; broadcast:4K-64K = a/binomial; allgather = a/ring", nullptr);
  EXPECT_EQ(table->edges(), (std::vector<std::size_t>{4 << 10, 64 << 10}));
}

TEST(Rank, InfIsInside) {
  EXPECT_EQ(
      ranked("allreduce:1-inf = plain/ring", {Collective::kAllreduce, Memory::kHost, SIZE_MAX, 2}, {kPlain}).size(),
      1u);
}

TEST(Rank, LaterRulesAreFallbacksWithoutRepeats) {
  EXPECT_EQ(ranked("allreduce:0-1K = */ring; allreduce = vendor/native, */ring", kQuery, {kPlain, kVendor}),
            (Lines{"+ plain/ring: given by allreduce:0-1K", "+ vendor/ring: given by allreduce:0-1K",
                   "+ vendor/native: given by allreduce"}));
}

TEST(Rank, BansHoldForTheRuleAndThoseAfterIt) {
  EXPECT_EQ(
      ranked("allreduce = plain/ring, !*/ring; allreduce@host = */ring, */rabenseifner", kQuery, {kPlain, kVendor}),
      (Lines{"- plain/ring: forbidden by allreduce", "- vendor/ring: forbidden by allreduce",
             "+ plain/rabenseifner: given by allreduce@host", "+ vendor/rabenseifner: given by allreduce@host"}));
  EXPECT_EQ(ranked("allreduce = !vendor/native; allreduce@host = */native, */ring", kQuery, {kVendor}),
            (Lines{"- vendor/native: forbidden by allreduce", "+ vendor/ring: given by allreduce@host"}));
}

TEST(Rank, BansWithoutAFormatHoldForAll) {
  Query between = kQuery;
  between.between = true;
  EXPECT_EQ(ranked("allreduce = !*/ring; allreduce = plain/ring/int8, plain/ordered/int8", between, {kPlain}),
            (Lines{"- plain/ring: forbidden by allreduce", "- plain/ring/int8: forbidden by allreduce",
                   "+ plain/ordered/int8: given by allreduce"}));
  const auto rules =
      Table::parse("allreduce:1M-inf = !far/ring, far/ordered; allreduce = far/ring, !*/ring/int8", nullptr);
  EXPECT_EQ(rules->bans(), "allreduce:1M-inf = !far/ring; allreduce = !*/ring/int8");
}

// Whoever asked for a format learns why it is not there.
TEST(Rank, FormatsForOtherPlacesAreTold) {
  EXPECT_EQ(ranked("allreduce@between = plain/ring/int8, plain/ordered; allreduce@between:1M-inf = plain/ring/int4; "
                   "allreduce = plain/ring",
                   kQuery, {kPlain}),
            (Lines{"- plain/ring/int8: allreduce@between holds where each rank is on a host of its own, as in a "
                   "composition's part between hosts",
                   "+ plain/ring: given by allreduce"}));
}

TEST(Rank, BansOfOtherSizesDoNotHold) {
  EXPECT_EQ(ranked("allreduce:1M-inf = !*/ring; allreduce = */ring", kQuery, {kPlain}),
            Lines{"+ plain/ring: given by allreduce"});
}

TEST(Rank, UsersComeBeforeTheDefaults) {
  const Table both = Table::defaults().overridden_by(table("allreduce = plain/rabenseifner"));
  const auto verdicts = both.rank(kQuery, {kMapped, kPlain});
  ASSERT_GT(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].option, (Option{"plain", "rabenseifner"}));
  EXPECT_EQ(verdicts[1].option, (Option{"mapped", "oneshot"}));
  EXPECT_EQ(both.rules().size(), Table::defaults().rules().size() + 1);
}

}  // namespace
}  // namespace roda::select
