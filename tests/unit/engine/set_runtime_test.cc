// What a process set keeps for the plans that run in it.
#include "core/launch/set_runtime.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace roda::engine {
namespace {

TEST(SetRuntime, KeepsRoutesByPlanRootAndDevices) {
  SetRuntime set({}, nullptr);
  const SetRuntime::Use uses[] = {{1, 0, -1}, {2, 0, -1}, {1, 1, -1}, {1, 0, 0}, {1, 0, 1}};
  std::set<const SetRuntime::Route*> routes;
  for (const SetRuntime::Use& use : uses) routes.insert(&set.route(use));
  EXPECT_EQ(routes.size(), std::size(uses));
  for (const SetRuntime::Use& use : uses) EXPECT_EQ(routes.count(&set.route(use)), 1u);
}

TEST(SetRuntime, KeepsWhatALaunchRunsForThatAgreementAndSizeAlone) {
  SetRuntime set({}, nullptr);
  const auto agreed = [](std::int32_t bit) {
    auto made = std::make_shared<negotiate::Agreed>();
    made->cache_bit = bit;
    return made;
  };
  const auto launch = [](const negotiate::AgreedPtr& head, std::size_t bytes, std::uint32_t rules) {
    negotiate::Launch made;
    made.tensors = {head};
    made.bytes = bytes;
    made.rules = rules;
    return made;
  };
  const negotiate::AgreedPtr head = agreed(3), next = agreed(3), uncached = agreed(-1);
  const Plan plan;
  SetRuntime::Route& route = set.route({});
  set.keep(launch(head, 64, 0), {{}, {}, &plan, &route});
  set.keep(launch(uncached, 64, 0), {{}, {}, &plan, &route});
  const SetRuntime::Binding* const kept = set.find_kept(launch(head, 64, 0));
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(kept->plan == &plan && kept->route == &route);
  for (const auto& other : {launch(head, 128, 0), launch(head, 64, 1), launch(next, 64, 0), launch(uncached, 64, 0)}) {
    EXPECT_EQ(set.find_kept(other), nullptr);
  }
  set.keep(launch(next, 64, 0), {{}, {}, &plan, &route});
  EXPECT_EQ(set.find_kept(launch(head, 64, 0)), nullptr) << "its bit is another's";
}

}  // namespace
}  // namespace roda::engine
