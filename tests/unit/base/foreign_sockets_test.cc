#include "plugins/base/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/base/unique_fd.h"
#include "tests/unit/base/in_child.h"

namespace roda {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    one.reset(fds[0]);
    other.reset(fds[1]);
  }
  UniqueFd one;
  UniqueFd other;
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(ForeignSockets, AreClosedInTheChildAloneAndNotHandedOn) {
  const Pair pair;
  guard_sockets(&pair, {pair.one.get()});
  EXPECT_NE(::fcntl(pair.one.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(in_child([&] { return !is_open(pair.one.get()) && is_open(pair.other.get()); }));
  EXPECT_TRUE(is_open(pair.one.get()));
  forget_sockets(&pair);
  EXPECT_TRUE(in_child([&] { return is_open(pair.one.get()); }));
}

TEST(ForeignSockets, ANumberThatWasUsedAgainIsLeftAlone) {
  Pair pair;
  const int number = pair.one.get();
  guard_sockets(&pair, {number});
  pair.one.reset();
  const Pair next;
  ASSERT_EQ(next.one.get(), number) << "the kernel hands out the lowest free number";
  EXPECT_TRUE(in_child([&] { return is_open(number); }));
  forget_sockets(&pair);
}

TEST(ForeignSockets, OwnersDoNotDisturbEachOther) {
  const Pair mine, theirs;
  guard_sockets(&mine, {mine.one.get()});
  guard_sockets(&theirs, {theirs.one.get()});
  guard_sockets(&mine, {mine.other.get()});  // in place of what it had
  EXPECT_TRUE(
      in_child([&] { return is_open(mine.one.get()) && !is_open(mine.other.get()) && !is_open(theirs.one.get()); }));
  forget_sockets(&mine);
  forget_sockets(&theirs);
}

TEST(ForeignSockets, WhatIsNoSocketIsLeftAlone) {
  const UniqueFd file(::open("/dev/null", O_RDONLY));
  guard_sockets(&file, {file.get(), -1});
  EXPECT_EQ(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(in_child([&] { return is_open(file.get()); }));
  forget_sockets(&file);
}

}  // namespace
}  // namespace roda
