// main() of tests that run inside a job from the first to the last.
#include "tests/multi/engine/rank.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new roda::test::Job);
  return RUN_ALL_TESTS();
}
