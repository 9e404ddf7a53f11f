#include "core/bootstrap/local_meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace roda {
namespace {

constexpr std::chrono::seconds kLong{20};

Store::Clock::time_point soon(std::chrono::milliseconds left) { return Store::Clock::now() + left; }

std::string own_name(const char* test) { return LocalMeeting::name_of(std::string(test) + std::to_string(::getpid())); }

// The ranks from 1 on, as threads; each joins at once.
std::vector<Status> join_all(const std::string& name, const std::vector<int>& ranks) {
  std::vector<Status> ends(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      Invitation invitation;
      ends[i] = LocalMeeting::join(name, ranks[i], soon(kLong), &invitation);
      if (ends[i].ok()) ends[i] = invitation.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(LocalMeetingTest, RanksThatComeBeforeRankZeroGetItsInvitation) {
  const std::string name = own_name("early");
  Invitation told;
  Status joined;
  std::thread rank1([&] { joined = LocalMeeting::join(name, 1, soon(kLong), &told); });
  LocalMeeting meeting;
  ASSERT_TRUE(meeting.open(name, soon(kLong)).ok());
  ASSERT_TRUE(meeting.wait_for_all(2, soon(kLong)).ok());
  Invitation invitation;
  invitation.port = 4711;
  meeting.tell_all(invitation);
  rank1.join();
  EXPECT_TRUE(joined.ok()) << joined.message();
  EXPECT_EQ(told.port, 4711);
}

// Whatever ends a meeting is what everybody is told.
Status end_of(const std::string& name, int size, std::chrono::milliseconds timeout, const std::vector<int>& ranks,
              std::vector<Status>* ends) {
  LocalMeeting meeting;
  EXPECT_TRUE(meeting.open(name, soon(kLong)).ok());
  std::thread others([&] { *ends = join_all(name, ranks); });
  const Status status = meeting.wait_for_all(size, soon(timeout));
  Invitation invitation;
  if (!status.ok()) invitation.refuse(status);
  meeting.tell_all(invitation);
  meeting = LocalMeeting();  // who has not been let in hears that it is over
  others.join();
  return status;
}

TEST(LocalMeetingTest, ARankThatDoesNotComeIsNamedToAll) {
  std::vector<Status> ends;
  const Status status = end_of(own_name("missing"), 4, std::chrono::milliseconds(500), {2}, &ends);
  EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(status.message(), "ranks 1, 3 of 4 have not come");
  EXPECT_EQ(ends[0].message(), status.message());
}

TEST(LocalMeetingTest, ARankThatComesTwiceEndsIt) {
  std::vector<Status> ends;
  const Status status = end_of(own_name("twice"), 4, kLong, {1, 1}, &ends);
  EXPECT_EQ(status.code(), RODA_ERR_PRECONDITION);
  EXPECT_NE(status.message().find("rank 1 was started twice"), std::string::npos) << status.message();
}

int connect_raw(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  return fd;
}

TEST(LocalMeetingTest, ARankThatEndsBeforeTheOthersComeIsNamed) {
  const std::string name = own_name("dead");
  LocalMeeting meeting;
  ASSERT_TRUE(meeting.open(name, soon(kLong)).ok());
  const int fd = connect_raw(name);
  struct {
    char magic[8] = {'r', 'o', 'd', 'a', 'm', 'e', 'e', 't'};
    std::int32_t rank = 2;
  } hello;
  ASSERT_EQ(::send(fd, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  ::close(fd);
  const Status status = meeting.wait_for_all(3, soon(kLong));
  EXPECT_EQ(status.code(), RODA_ERR_PEER);
  EXPECT_EQ(status.rank(), 2);
  EXPECT_NE(status.message().find("Rank 2 (process " + std::to_string(::getpid())), std::string::npos)
      << status.message();
}

TEST(LocalMeetingTest, WhoIsNoRankDisturbsNobody) {
  const std::string name = own_name("noise");
  LocalMeeting meeting;
  ASSERT_TRUE(meeting.open(name, soon(kLong)).ok());
  const int silent = connect_raw(name), loud = connect_raw(name);
  ASSERT_GT(::send(loud, "garbage", 7, 0), 0);
  Status joined;
  Invitation told;
  std::thread rank1([&] { joined = LocalMeeting::join(name, 1, soon(kLong), &told); });
  EXPECT_TRUE(meeting.wait_for_all(2, soon(kLong)).ok());
  meeting.tell_all(Invitation());
  rank1.join();
  EXPECT_TRUE(joined.ok()) << joined.message();
  ::close(silent);
  ::close(loud);
}

TEST(LocalMeetingTest, RankZeroThatEndsIsToldAtOnce) {
  const std::string name = own_name("alone");
  auto meeting = std::make_unique<LocalMeeting>();
  ASSERT_TRUE(meeting->open(name, soon(kLong)).ok());
  Status joined;
  Invitation told;
  std::thread rank1([&] { joined = LocalMeeting::join(name, 1, soon(kLong), &told); });
  ASSERT_TRUE(meeting->wait_for_all(2, soon(kLong)).ok());
  meeting.reset();
  rank1.join();
  EXPECT_EQ(joined.code(), RODA_ERR_PEER);
  EXPECT_EQ(joined.rank(), 0);
}

TEST(LocalMeetingTest, ASecondRankZeroIsRefused) {
  const std::string name = own_name("second");
  LocalMeeting first, second;
  ASSERT_TRUE(first.open(name, soon(kLong)).ok());
  const Status status = second.open(name, soon(std::chrono::milliseconds(50)));
  EXPECT_EQ(status.code(), RODA_ERR_PRECONDITION);
  EXPECT_NE(status.message().find("MASTER_PORT of its own"), std::string::npos);
}

TEST(LocalMeetingTest, WithoutRankZeroTheOthersGiveUp) {
  Invitation told;
  const Status status = LocalMeeting::join(own_name("nobody"), 1, soon(std::chrono::milliseconds(100)), &told);
  EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
}

TEST(LocalMeetingTest, AnotherUsersRankZeroIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const std::string name = own_name("foreign");
  LocalMeeting meeting;
  ASSERT_EQ(::seteuid(12345), 0);
  const Status opened = meeting.open(name, soon(kLong));
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(opened.ok());
  Invitation told;
  const Status status = LocalMeeting::join(name, 1, soon(kLong), &told);
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_NE(status.message().find("user 12345"), std::string::npos) << status.message();
  LocalMeeting own;
  const Status taken = own.open(name, soon(std::chrono::milliseconds(100)));
  EXPECT_EQ(taken.code(), RODA_ERR_AUTH);
  EXPECT_NE(taken.message().find("user 12345"), std::string::npos) << taken.message();
}

}  // namespace
}  // namespace roda
