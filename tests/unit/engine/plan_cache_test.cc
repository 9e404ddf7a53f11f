// What is remembered of plans, without a planner to make them.
#include "core/plan/planner.h"

#include <gtest/gtest.h>

namespace roda::engine {
namespace {

Plan plan_of(const char* algorithm) {
  static const roda_transport transport = [] {
    roda_transport t{};
    t.name = "near";
    return t;
  }();
  Plan plan;
  plan.stages = {{RODA_ALLREDUCE, &transport, schedule::find_algorithm(schedule::Collective::kAllreduce, algorithm)}};
  plan.places = {""};
  return plan;
}

PlanQuery query(std::size_t bytes, int size = 2) {
  PlanQuery q;
  q.bytes = bytes;
  q.size = size;
  return q;
}

TEST(PlanCache, FindsAPlanBetweenTwoEdges) {
  PlanCache cache({100, 1000});
  EXPECT_EQ(cache.find(query(150)), nullptr);
  const Plan* kept = cache.keep(query(150), plan_of("ring"));
  EXPECT_EQ(cache.find(query(100)), kept);
  EXPECT_EQ(cache.find(query(999)), kept);
  EXPECT_EQ(cache.find(query(99)), nullptr);
  EXPECT_EQ(cache.find(query(1000)), nullptr);
  EXPECT_EQ(cache.find(query(150, 3)), nullptr);
}

TEST(PlanCache, EqualPlansAreOne) {
  PlanCache cache({});
  const Plan* first = cache.keep(query(1, 2), plan_of("ring"));
  EXPECT_EQ(cache.keep(query(1, 3), plan_of("ring")), first);
  const Plan* other = cache.keep(query(1, 4), plan_of("direct"));
  EXPECT_NE(other, first);
  EXPECT_EQ(first->id, 1u);
  EXPECT_EQ(other->id, 2u);
  EXPECT_EQ(other->text, "allreduce by near/direct");
}

// A stage over hosts of two ranks has half of the bytes: its edge at 100 is the bucket's at 200.
TEST(PlanCache, EdgesAreThoseOfSharesToo) {
  const Shape shape({{topology::kHost, {0, 0, 1, 1}}}, 0);
  PlanCache cache({100});
  PlanQuery q;
  q.lie_on(shape);
  q.bytes = 150;
  const Plan* kept = cache.keep(q, plan_of("ring"));
  q.bytes = 199;
  EXPECT_EQ(cache.find(q), kept);
  q.bytes = 200;
  EXPECT_EQ(cache.find(q), nullptr);
}

}  // namespace
}  // namespace roda::engine
