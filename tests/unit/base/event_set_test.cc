#include "plugins/base/event_set.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>

#include "tests/unit/base/in_child.h"

namespace roda {
namespace {

bool is_readable(int fd) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

TEST(EventSet, RingsUntilTheRingIsTakenBack) {
  EventSet set;
  ASSERT_TRUE(set.open().ok());
  EXPECT_FALSE(is_readable(set.event_fd()));
  set.ring();
  ring_bell(set.bell_fd());
  EXPECT_TRUE(is_readable(set.event_fd()));
  set.clear_rings();
  EXPECT_FALSE(is_readable(set.event_fd()));
}

TEST(EventSet, TellsWhoseDescriptorIsReadable) {
  EventSet set;
  ASSERT_TRUE(set.open().ok());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  int what = 0;
  ASSERT_TRUE(set.watch(ends[0], &what, EPOLLIN).ok());
  EXPECT_FALSE(is_readable(set.event_fd()));
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  epoll_event event{};
  ASSERT_EQ(::epoll_wait(set.event_fd(), &event, 1, 0), 1);
  EXPECT_EQ(event.data.ptr, &what);
  set.unwatch(ends[0]);
  EXPECT_FALSE(is_readable(set.event_fd()));
  for (const int end : ends) ::close(end);
}

TEST(EventSet, ADescriptorThatCanNotBeWatchedIsAnError) {
  EventSet set;
  ASSERT_TRUE(set.open().ok());
  const Status status = set.watch(-1, nullptr, EPOLLIN);
  EXPECT_EQ(status.code(), RODA_ERR_SYSTEM);
  EXPECT_NE(status.message().find("Bad file descriptor"), std::string::npos) << status.message();
}

TEST(EventSet, AForkedChildIsNotItsOwner) {
  EventSet set;
  ASSERT_TRUE(set.open().ok());
  EXPECT_TRUE(set.in_owner());
  EXPECT_TRUE(in_child([&] { return !set.in_owner(); }));
}

}  // namespace
}  // namespace roda
