#include "plugins/base/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "plugins/base/unique_fd.h"
#include "tests/unit/base/in_child.h"

namespace roda {
namespace {

bool is_null_device(int fd) {
  struct stat here {
  }, null{};
  return ::fstat(fd, &here) == 0 && ::stat("/dev/null", &null) == 0 && here.st_rdev == null.st_rdev &&
         S_ISCHR(here.st_mode);
}

UniqueFd make_pipe(UniqueFd* other) {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  other->reset(fds[1]);
  return UniqueFd(fds[0]);
}

TEST(ForkGuard, TheChildHoldsTheNullDeviceInstead) {
  UniqueFd writer;
  UniqueFd reader = make_pipe(&writer);
  ForkGuard guard(reader.get());
  EXPECT_TRUE(in_child([&] { return is_null_device(reader.get()) && !is_null_device(writer.get()); }));
  EXPECT_FALSE(is_null_device(reader.get()));
}

TEST(ForkGuard, EndsWithItsObjectAndMoves) {
  UniqueFd writer;
  UniqueFd reader = make_pipe(&writer);
  ForkGuard outer;
  {
    ForkGuard inner(reader.get());
    outer = std::move(inner);
  }
  EXPECT_TRUE(in_child([&] { return is_null_device(reader.get()); }));
  outer = ForkGuard();
  EXPECT_TRUE(in_child([&] { return !is_null_device(reader.get()); }));
}

TEST(ForkGuard, AChildsChildIsAForkedChildToo) {
  UniqueFd writer;
  UniqueFd reader = make_pipe(&writer);
  ForkGuard guard(reader.get());
  EXPECT_FALSE(is_forked_child());
  EXPECT_TRUE(in_child([&] { return is_forked_child() && in_child([] { return is_forked_child(); }); }));
}

TEST(ForkGuard, ForkingWhileOthersRegisterNeverHangs) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 2000; ++round) {
        UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        ForkGuard guard(fd.get());
      }
    });
  }
  for (int round = 0; round < 20; ++round) EXPECT_TRUE(in_child([] { return is_forked_child(); }));
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace roda
