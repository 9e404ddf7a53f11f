// Plans for tensors on devices, from transports that exist only as tables of capabilities.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/planner.h"

namespace roda::engine {
namespace {

// A library that works on devices' memory alone, and knows no 16-bit integers.
std::int32_t supports(roda_context* /*context*/, std::int32_t collective, std::int32_t dtype, std::int32_t op,
                      std::int32_t memory) {
  const bool reduces = collective == RODA_ALLREDUCE || collective == RODA_REDUCESCATTER;
  const bool knows = !reduces || (dtype != RODA_INT16 && (op != RODA_AVERAGE || dtype == RODA_FLOAT32));
  return memory == RODA_MEMORY_CUDA && collective != RODA_BARRIER && knows ? 1 : 0;
}

roda_transport transport(const char* name, std::uint64_t capabilities) {
  roda_transport t{};
  t.struct_size = sizeof t;
  t.name = name;
  t.capabilities = capabilities;
  if ((capabilities & RODA_CAP_NATIVE) != 0) t.collective_supported = supports;
  return t;
}

constexpr std::uint64_t kMemory = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_MAP;
const roda_transport kNear = transport("near", kMemory | RODA_CAP_SAME_HOST);
const roda_transport kFar = transport("far", RODA_CAP_P2P);
const roda_transport kLibrary = transport("library", RODA_CAP_NATIVE);

struct Wish {
  std::vector<const roda_transport*> transports{&kLibrary, &kNear, &kFar};
  bool composes = false;
  bool is_asked_for = false;  // by its knob
  bool deterministic = false;
  std::string rules;
};

Planner planner(const Wish& wish = {}) {
  Planner::Policy options;
  options.terms.in_rank_order = wish.deterministic;
  options.compositions.always_hierarchical_allreduce = options.compositions.always_hierarchical_allgather =
      wish.is_asked_for;
  for (const auto collective : {schedule::Collective::kAllreduce, schedule::Collective::kAllgather,
                                schedule::Collective::kBroadcast, schedule::Collective::kReduceScatter}) {
    const bool is_mixed = wish.transports.size() > 1 && wish.transports.front() == &kLibrary;
    options.on_device[collective] = {wish.transports, wish.composes || wish.is_asked_for, is_mixed};
  }
  std::string error;
  const auto user = select::Table::parse(wish.rules, &error);
  EXPECT_TRUE(user.has_value()) << error;
  return {select::Table::defaults().overridden_by(*user), {&kNear, &kFar}, std::move(options)};
}

// Shapes live as long as the test program; query() has hosts with so many ranks each.
PlanQuery query_on(const std::vector<topology::Level>& levels, int collective = RODA_ALLREDUCE,
                   int dtype = RODA_FLOAT32) {
  static std::vector<std::unique_ptr<Shape>> shapes;
  shapes.push_back(std::make_unique<Shape>(levels, 0));
  PlanQuery q;
  q.collective = collective;
  q.dtype = dtype;
  q.memory_kind = RODA_MEMORY_CUDA;
  q.bytes = 64 << 20;
  q.lie_on(*shapes.back());
  return q;
}

PlanQuery query(const std::vector<int>& sizes, int collective = RODA_ALLREDUCE, int dtype = RODA_FLOAT32) {
  std::vector<int> host_of;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(sizes[host]), static_cast<int>(host));
  }
  return query_on({{"host", host_of}}, collective, dtype);
}

std::string described(Planner&& planner, const PlanQuery& query) {
  const Plan* plan = nullptr;
  const Status s = planner.plan(query, &plan);
  return s.ok() ? plan->describe() : s.message();
}

TEST(DevicePlanner, WhatWorksOnTheMemoryComesFirst) {
  EXPECT_EQ(described(planner(), query({4})), "allreduce by library/native");
  EXPECT_EQ(described(planner(), query({2, 2})), "allreduce by library/native");
  EXPECT_EQ(described(planner(), query({2, 2}, RODA_ALLGATHER)), "allgather by library/native");
}

TEST(DevicePlanner, ComposesWithSomethingElseBetweenHosts) {
  EXPECT_EQ(
      described(planner({.composes = true}), query({2, 2})),
      "reducescatter on each host by library/native, then allreduce across hosts by far/ring (staged through host "
      "memory), then allgather on each host by library/native");
  EXPECT_EQ(
      described(planner({.composes = true}), query({2, 2}, RODA_BROADCAST)),
      "broadcast across hosts by far/double_binary_tree (staged through host memory), then broadcast on each host "
      "by library/native");
  // Where there is nothing to compose, the library serves alone.
  EXPECT_EQ(described(planner({.composes = true}), query({1, 1})), "allreduce by library/native");
  // Between hosts is something else, even if only the library was named.
  EXPECT_EQ(
      described(planner({.transports = {&kLibrary}, .composes = true}), query({2, 2})),
      "reducescatter on each host by library/native, then allreduce across hosts by far/ring (staged through host "
      "memory), then allgather on each host by library/native");
}

TEST(DevicePlanner, ARankAloneOnItsHostHasStagesOfItsOwnWhereTheyAreAskedFor) {
  const std::string composed =
      "reducescatter on each host by library/native, then allreduce across hosts by far/ring (staged through host "
      "memory), then allgather on each host by library/native";
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({1, 1})), composed);
  EXPECT_EQ(described(planner({.transports = {&kLibrary}, .is_asked_for = true}), query({1, 1, 1})), composed);
  EXPECT_EQ(described(planner({.rules = "allreduce@cuda = levels/hierarchical"}), query({1, 1})), composed);
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({1, 1}, RODA_BROADCAST)),
            "broadcast across hosts by far/double_binary_tree (staged through host memory), then broadcast on each "
            "host by library/native");
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({1, 1}, RODA_ALLGATHER)),
            "allgather across hosts by far/ring (staged through host memory), then allgather on each host by "
            "library/native");
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({1, 1}, RODA_REDUCESCATTER)),
            "reducescatter on each host by library/native, then reducescatter across hosts by far/ring (staged "
            "through host memory)");
  // Where somebody has a neighbour they are as ever.
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({1, 2, 1})), composed);
  // By themselves, and on one host, the library serves alone.
  EXPECT_EQ(described(planner(), query({1, 1})), "allreduce by library/native");
  EXPECT_EQ(described(planner({.is_asked_for = true}), query({2})), "allreduce by library/native");
}

TEST(DevicePlanner, RanksOfOneHostThatALevelSeparates) {
  const std::vector<topology::Level> cards{{"card", {0, 1}}, {"host", {0, 0}}};
  EXPECT_EQ(described(planner({.is_asked_for = true}), query_on(cards)),
            "reducescatter on each card by library/native, then allreduce across cards of each host by near/direct "
            "(staged through host memory), then allgather on each card by library/native");
  EXPECT_EQ(described(planner({.composes = true}), query_on(cards)), "allreduce by library/native");
  EXPECT_EQ(described(planner({.transports = {&kLibrary}, .is_asked_for = true}), query_on(cards)),
            "allreduce by library/native")
      << "on one host the knob alone asks for nothing";
  const std::vector<topology::Level> racks{{"host", {0, 1, 2, 3}}, {"rack", {0, 0, 1, 1}}};
  EXPECT_EQ(described(planner({.is_asked_for = true}), query_on(racks)),
            "reducescatter on each host by library/native, then reducescatter across hosts of each rack by far/ring "
            "(staged through host memory), then allreduce across racks by far/ring (staged through host memory), then "
            "allgather across hosts of each rack by far/ring (staged through host memory), then allgather on each "
            "host by library/native");
}

TEST(DevicePlanner, ATorusIsTheLibrarysAlongBothAxes) {
  EXPECT_EQ(
      described(planner({.rules = "allreduce = levels/torus"}), query({2, 2})),
      "reducescatter along x by library/native, then allreduce along y by library/native, then allgather along x by "
      "library/native");
}

TEST(DevicePlanner, WhatIsLeftIsStaged) {
  const Wish host_only{.transports = {&kNear, &kFar}};
  EXPECT_EQ(described(planner(host_only), query({4})), "allreduce by near/direct, staged through host memory");
  EXPECT_EQ(
      described(planner(host_only), query({2, 2})),
      "reducescatter on each host by near/direct, then allreduce across hosts by far/ring, then allgather on each "
      "host by near/direct, staged through host memory");
  EXPECT_EQ(described(planner(), query({4}, RODA_ALLREDUCE, RODA_INT16)),
            "allreduce by near/direct, staged through host memory");
  EXPECT_EQ(described(planner({.deterministic = true}), query({4})),
            "allreduce by near/twoshot, staged through host memory")
      << "a library sums in an order of its own";
}

TEST(DevicePlanner, OnlyWhatIsNamedCarriesIt) {
  EXPECT_NE(described(planner({.transports = {&kLibrary}}), query({4}, RODA_ALLREDUCE, RODA_INT16))
                .find("No Allreduce operation enabled"),
            std::string::npos);
  EXPECT_EQ(described(planner({.transports = {&kFar}}), query({4})),
            "allreduce by far/ring, staged through host memory");
  // Its parts inside hosts too, though something else serves host memory there.
  EXPECT_EQ(described(planner({.transports = {&kFar}}), query({2, 2})),
            "allreduce by far/ring, staged through host memory");
  EXPECT_EQ(described(planner({.transports = {&kFar}, .is_asked_for = true}), query({2, 2})),
            "reducescatter on each host by far/ring, then allreduce across hosts by far/ring, then allgather on each "
            "host by far/ring, staged through host memory");
}

TEST(DevicePlanner, AveragesAreTheLibrarysWhereItHasThem) {
  PlanQuery q = query({4});
  q.op = RODA_AVERAGE;
  EXPECT_TRUE(planner().averages(q));
  EXPECT_FALSE(planner({.transports = {&kNear, &kFar}}).averages(q));
  q.dtype = RODA_INT32;
  EXPECT_FALSE(planner().averages(q));
  q = query({2, 2});
  q.op = RODA_AVERAGE;
  EXPECT_FALSE(planner({.composes = true}).averages(q)) << "a composition scales at its end";
}

TEST(DevicePlanner, AdasumWorksBetweenHosts) {
  EXPECT_EQ(described(planner(), query({2, 2}, RODA_ADASUM_ALLREDUCE)),
            "reducescatter on each host by library/native, then adasum across hosts by far/vector_halving "
            "(staged through host memory), then allgather on each host by library/native");
  EXPECT_EQ(described(planner({.transports = {&kNear, &kFar}}), query({2, 2}, RODA_ADASUM_ALLREDUCE)),
            "adasum by far/vector_halving, staged through host memory");
}

}  // namespace
}  // namespace roda::engine
