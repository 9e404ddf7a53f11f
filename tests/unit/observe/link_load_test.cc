#include "core/observe/link_load.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>

#include "plugins/base/unique_fd.h"

namespace roda::observe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

LinkLoad link(std::int64_t bytes, std::int64_t sent, std::int64_t resent, std::int64_t busy) {
  return {.from = "10.0.0.1:7", .to = "10.0.0.2:9", .bytes = bytes, .sent = sent, .resent = resent, .busy = busy};
}

TEST(LinkLoad, TellsWhatIsLostElseWhatIsSlow) {
  const std::vector<LinkLoad> before{link(1'000'000, 700, 50, kSecond)};
  EXPECT_EQ(worst_link(before, {link(2'000'000, 1700, 80, kSecond)}, kSecond).words,
            "the link from 10.0.0.1 to 10.0.0.2 loses 3 % of what it carries");
  const LinkFault slow = worst_link(before, {link(7'000'000, 5000, 51, kSecond * 9 / 5)}, kSecond);
  EXPECT_EQ(slow.words, "the link from 10.0.0.1 to 10.0.0.2 is busy 80 % of the time, with 6 MB a second");
  EXPECT_EQ(slow.lost, 0) << "one segment";
  EXPECT_EQ(worst_link(before, {link(1'050'000, 720, 50, kSecond * 9 / 5)}, kSecond).busy, 0)
      << "it has little to carry";
  EXPECT_EQ(worst_link({}, before, kSecond).words, "") << "a new one";
}

TEST(LinkLoad, IsTheCauseWhereOneWayIsWorseThanTheOther) {
  const LinkFault slow{.busy = 800, .words = "slow"}, fast{.busy = 100, .words = "fast"}, lossy{30, 50, "lossy"};
  EXPECT_EQ(cause_of_links(slow, fast, 400), "slow");
  EXPECT_EQ(cause_of_links(fast, slow, 400), "slow") << "what a rank waits for makes it late";
  EXPECT_EQ(cause_of_links(slow, slow, 400), "");
  EXPECT_EQ(cause_of_links(lossy, slow, 400), "lossy");
  EXPECT_EQ(cause_of_links({}, {}, 400), "");
}

TEST(LinkLoad, IsReadOfConnectionsToOtherAddresses) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in one{.sin_family = AF_INET}, two{.sin_family = AF_INET};
  one.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  two.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  socklen_t length = sizeof one;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&one), length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&one), &length), 0);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&two), length), 0);
  EXPECT_TRUE(read_links().empty());
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&one), length), 0);
  const auto links = read_links();
  ASSERT_EQ(links.size(), 1u);
  EXPECT_TRUE(links.front().from.starts_with("127.0.0.2:"));
  EXPECT_TRUE(links.front().to.starts_with("127.0.0.1:"));
}

}  // namespace
}  // namespace roda::observe
