#include "plugins/base/fd_mailbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace roda {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(const FdMailbox::Message& message) {
  return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
}

class FdMailboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FdMailbox::open(&a_).ok());
    ASSERT_TRUE(FdMailbox::open(&b_).ok());
  }
  FdMailbox a_, b_;
};

TEST_F(FdMailboxTest, CarriesTagPayloadAndWorkingDescriptors) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  bool sent = false;
  ASSERT_TRUE(a_.send(b_.address(), 42, bytes_of("hello"), {&ends[1], 1}, &sent).ok());
  ASSERT_TRUE(sent);
  writer.reset();

  FdMailbox::Message message;
  bool received = false;
  ASSERT_TRUE(b_.receive(&message, &received).ok());
  ASSERT_TRUE(received);
  EXPECT_EQ(message.tag, 42u);
  EXPECT_EQ(message.sender, ::getpid());
  EXPECT_EQ(text_of(message), "hello");
  ASSERT_EQ(message.fds.size(), 1u);
  EXPECT_NE(::fcntl(message.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(message.fds[0].get(), "x", 1), 1);
  char got = 0;
  EXPECT_EQ(::read(reader.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST_F(FdMailboxTest, NothingThereIsNoError) {
  FdMailbox::Message message;
  bool received = true;
  ASSERT_TRUE(a_.receive(&message, &received).ok());
  EXPECT_FALSE(received);
}

TEST_F(FdMailboxTest, AddressesDiffer) { EXPECT_NE(a_.address(), b_.address()); }

TEST_F(FdMailboxTest, NobodyThereIsAPeerError) {
  std::string address = b_.address();
  b_.close();
  bool sent = true;
  EXPECT_EQ(a_.send(address, 0, {}, {}, &sent).code(), RODA_ERR_PEER);
  EXPECT_FALSE(sent);
}

TEST_F(FdMailboxTest, AFullQueueIsBackPressure) {
  bool sent = true;
  int count = 0;
  while (sent) {
    ASSERT_TRUE(a_.send(b_.address(), 1, {}, {}, &sent).ok());
    ASSERT_LT(++count, 100000);
  }
  FdMailbox::Message message;
  bool received = false;
  ASSERT_TRUE(b_.receive(&message, &received).ok());
  ASSERT_TRUE(received);
  ASSERT_TRUE(a_.send(b_.address(), 2, {}, {}, &sent).ok());
  EXPECT_TRUE(sent);
}

TEST_F(FdMailboxTest, RefusesWhatIsTooLong) {
  bool sent = false;
  EXPECT_EQ(a_.send(b_.address(), 0, bytes_of(std::string(1025, 'x')), {}, &sent).code(), RODA_ERR_INVALID);
  EXPECT_EQ(a_.send(std::string(200, 'x'), 0, {}, {}, &sent).code(), RODA_ERR_INVALID);
}

TEST_F(FdMailboxTest, SkipsWhatIsNoMessage) {
  UniqueFd raw(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, b_.address().data(), b_.address().size());
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + b_.address().size());
  for (std::size_t bytes : {0, 3, 16, 2000}) {
    std::string junk(bytes, 'j');
    ASSERT_EQ(::sendto(raw.get(), junk.data(), junk.size(), 0, reinterpret_cast<sockaddr*>(&to), length),
              static_cast<ssize_t>(bytes));
  }
  bool sent = false;
  ASSERT_TRUE(a_.send(b_.address(), 9, {}, {}, &sent).ok());
  FdMailbox::Message message;
  bool received = false;
  ASSERT_TRUE(b_.receive(&message, &received).ok());
  ASSERT_TRUE(received);
  EXPECT_EQ(message.tag, 9u);
}

TEST_F(FdMailboxTest, DropsMessagesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  pid_t child = ::fork();
  if (child == 0) {
    bool sent = false;
    FdMailbox box;
    if (::setuid(65534) != 0 || !FdMailbox::open(&box).ok()) ::_exit(2);
    ::_exit(box.send(b_.address(), 666, {}, {}, &sent).ok() && sent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  FdMailbox::Message message;
  bool received = true;
  ASSERT_TRUE(b_.receive(&message, &received).ok());
  EXPECT_FALSE(received);
}

}  // namespace
}  // namespace roda
