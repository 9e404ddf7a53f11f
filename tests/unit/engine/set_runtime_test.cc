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

}  // namespace
}  // namespace roda::engine
