// What a process set keeps for the plans that run in it.
#include "core/launch/set_runtime.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace roda::engine {
namespace {

TEST(SetRuntime, KeepsRoutesByPlanRootAndDevices) {
  SetRuntime set({}, nullptr);
  const SetRuntime::Use uses[] = {{1, 0, ""}, {2, 0, ""}, {1, 1, ""}, {1, 0, ".0.1"}, {1, 0, ".1.0"}};
  std::set<const SetRuntime::Route*> routes;
  for (const SetRuntime::Use& use : uses) routes.insert(&set.route(use));
  EXPECT_EQ(routes.size(), std::size(uses));
  for (const SetRuntime::Use& use : uses) {
    const std::string devices(use.devices);  // in other memory
    EXPECT_EQ(routes.count(&set.route({use.plan, use.root, devices})), 1u);
  }
}

TEST(SetRuntime, KeepsAComposedStageForItsUseAlone) {
  SetRuntime set({}, nullptr);
  int made = 0;
  const auto make = [&made](std::unique_ptr<execute::Stage>*) {
    ++made;
    return Status();
  };
  const auto take = [&](const SetRuntime::Use& use) {
    execute::StageHandle stage;
    EXPECT_TRUE(set.composed(use, make, &stage).ok());
  };
  take({1, 0, ""});
  take({2, 0, ""});
  take({1, 0, ".0"});
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace roda::engine
