// The planner's parts, each alone, from transports that exist only as tables of capabilities.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "core/plan/carriers.h"
#include "core/plan/composer.h"
#include "core/plan/ranking.h"

namespace roda::engine {
namespace {

std::int32_t supports(roda_context* /*context*/, std::int32_t /*collective*/, std::int32_t dtype, std::int32_t /*op*/,
                      std::int32_t memory) {
  return memory == RODA_MEMORY_CUDA && dtype == RODA_FLOAT32 ? 1 : 0;
}

roda_transport transport(const char* name, std::uint64_t capabilities) {
  roda_transport t{};
  t.struct_size = sizeof t;
  t.name = name;
  t.capabilities = capabilities;
  if ((capabilities & RODA_CAP_NATIVE) != 0) t.collective_supported = supports;
  return t;
}

const roda_transport kNear = transport("near", RODA_CAP_P2P | RODA_CAP_SAME_HOST);
const roda_transport kFar = transport("far", RODA_CAP_P2P);
const roda_transport kThreads = transport("threads", RODA_CAP_P2P | RODA_CAP_IN_PROCESS);
const roda_transport kLibrary = transport("library", RODA_CAP_NATIVE);

Carriers carriers() { return {{&kNear, &kFar}, {{schedule::Collective::kAllreduce, {{&kLibrary, &kFar}}}}}; }

PlanQuery query(int memory_kind) {
  PlanQuery q;
  q.memory_kind = memory_kind;
  q.bytes = 1 << 20;
  q.size = 4;
  return q;
}

TEST(Carriers, NearOnesComeFirstAndThreadsOnlyWhenNamed) {
  const Carriers::Transports all = {&kThreads, &kFar, &kNear};
  EXPECT_EQ(in_order_of_preference(all, {}), (Carriers::Transports{&kNear, &kFar}));
  EXPECT_EQ(in_order_of_preference(all, {"threads"}), (Carriers::Transports{&kThreads}));
}

TEST(Carriers, AnAdasumGoesByWhatCarriesAllreduces) {
  const Carriers those = carriers();
  EXPECT_EQ(those.on_device(RODA_ADASUM_ALLREDUCE).transports, those.on_device(RODA_ALLREDUCE).transports);
  EXPECT_TRUE(those.on_device(RODA_BROADCAST).transports.empty());
}

TEST(Carriers, AreFoundByNameForEitherMemory) {
  EXPECT_EQ(carriers().named("near"), &kNear);
  EXPECT_EQ(carriers().named("library"), &kLibrary);
  EXPECT_EQ(carriers().named("threads"), nullptr);
}

TEST(Carriers, OnlyWhatServesHostMemoryCarriesStagedData) {
  EXPECT_EQ(carriers().staging(query(RODA_MEMORY_CUDA)), (Carriers::Transports{&kFar}));
}

TEST(Carriers, SumsAreTakenOnDevicesWhereScatterAndGatherWorkThere) {
  EXPECT_FALSE(carriers().add_on_device(query(RODA_MEMORY_CUDA)));
  const DeviceChoice choice{{&kLibrary}};
  const Carriers all({}, {{schedule::Collective::kReduceScatter, choice}, {schedule::Collective::kAllgather, choice}});
  EXPECT_TRUE(all.add_on_device(query(RODA_MEMORY_CUDA)));
  EXPECT_FALSE(all.add_on_device(query(RODA_MEMORY_HOST)));
}

class Parts : public testing::Test {
 protected:
  const std::deque<select::Table> tables_{select::Table::defaults()};
  const Carriers carriers_ = carriers();
  const Ranking::Terms terms_;
  const Ranking ranking_{tables_, carriers_, terms_};
  const Composer composer_{ranking_, carriers_, {}};
};

using RankingTest = Parts;
using ComposerTest = Parts;

TEST_F(RankingTest, OnDevicesOnlyWhatWorksThereAndCompositions) {
  for (const select::Verdict& v : ranking_.on_device(query(RODA_MEMORY_CUDA), {{"hierarchical", "no"}})) {
    EXPECT_TRUE(v.option.algorithm == "native" || v.option.transport == "levels") << v.option.algorithm;
  }
}

TEST_F(RankingTest, AStageOutsideHostsLeavesOutWhatServesInsideThem) {
  const auto names = [&](bool is_outside) {
    std::string text;
    for (const auto& v : ranking_.stage_on_device(query(RODA_MEMORY_CUDA), is_outside, RODA_ALLREDUCE)) {
      if (v.usable && text.find(v.option.transport) == std::string::npos) text += v.option.transport + " ";
    }
    return text;
  };
  EXPECT_EQ(names(false), "library far near ");
  EXPECT_EQ(names(true), "far near ");
}

TEST_F(ComposerTest, WithoutAShapeNothingIsComposed) {
  for (const auto& [name, why] : composer_.obstacles(query(RODA_MEMORY_HOST), carriers_.for_host())) {
    EXPECT_EQ(why, "all ranks are on one host") << name;
  }
}

TEST_F(ComposerTest, EveryStageHasATransportAndAPlace) {
  const Shape shape({{"host", {0, 0, 1, 1}}}, 0);
  PlanQuery q = query(RODA_MEMORY_HOST);
  q.lie_on(shape);
  EXPECT_EQ(composer_.obstacles(q, carriers_.for_host()).at("hierarchical"), "");
  Plan plan;
  ASSERT_TRUE(composer_.compose(q, "hierarchical", carriers_.for_host(), &plan).ok());
  ASSERT_EQ(plan.stages.size(), 3U);
  EXPECT_EQ(plan.places, (std::vector<std::string>{"on each host", "across hosts", "on each host"}));
  EXPECT_EQ(plan.stages[0].transport, &kNear);
  EXPECT_EQ(plan.stages[1].transport, &kFar);
}

}  // namespace
}  // namespace roda::engine
