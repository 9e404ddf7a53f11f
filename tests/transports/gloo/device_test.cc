// The choice of an address, on hosts whose name says nothing.
#include "transports/gloo/context.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <cstdio>
#include <cstring>

namespace roda::gloo {
namespace {

TEST(GlooDevice, OneHostMeansLoopback) {
  EXPECT_NE(make_device("", Reach::kHost, "")->str().find("127.0.0.1"), std::string::npos);
}

// In a forked child, with a host name of its own that nothing resolves.
TEST(GlooDevice, AHostNameThatDoesNotResolveIsNoObstacle) {
  constexpr int kMayNot = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const char name[] = "no-such-host.invalid";
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name, std::strlen(name)) != 0) ::_exit(kMayNot);
    try {
      ::_exit(make_device("", Reach::kNetwork, "") != nullptr ? 0 : 1);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      ::_exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "no right to set a host name";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace roda::gloo
