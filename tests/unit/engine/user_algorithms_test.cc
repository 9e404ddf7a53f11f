// Algorithms in files, named among the rules of the selection.
#include "core/plan/user_algorithms.h"

#include <gtest/gtest.h>

#include <string>

namespace roda::engine {
namespace {

struct Taken {
  std::string rules, paths;
};

Taken take(const std::string& select) {
  Taken taken;
  taken.rules = without_schedules(select, &taken.paths);
  EXPECT_EQ(taken.rules.size(), select.size());  // columns stay
  return taken;
}

TEST(UserAlgorithms, AreNamedAmongTheRules) {
  const Taken one = take("schedules = /a/b.json; allreduce = tcp/mine");
  EXPECT_EQ(one.paths, "/a/b.json");
  EXPECT_EQ(one.rules, "                     ; allreduce = tcp/mine");
  const Taken two = take("allreduce = tcp/mine;schedules=a:b ;\n schedules = c d\n");
  EXPECT_EQ(two.paths, "a:b:c d");
  EXPECT_EQ(two.rules.find_first_not_of(" ;\n", 20), std::string::npos) << two.rules;
}

TEST(UserAlgorithms, LeaveOtherRulesAlone) {
  for (const std::string select : {"", ";", "allreduce = tcp/schedules", "schedules", "schedulesx = a",
                                   "my schedules = a", "# schedules = a; schedules = b", "= schedules"}) {
    const Taken taken = take(select);
    EXPECT_EQ(taken.rules, select);
    EXPECT_EQ(taken.paths, "") << select;
  }
}

TEST(UserAlgorithms, SayWhichFileCannotBeRead) {
  const Status status = load_user_algorithms("/no/such/file.json");
  EXPECT_NE(status.message().find("HOROVOD_SELECT: schedules: /no/such/file.json: can't be read"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace roda::engine
