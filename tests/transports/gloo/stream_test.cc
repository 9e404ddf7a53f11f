#include "transports/gloo/link.h"

#include <gtest/gtest.h>

namespace roda::gloo {
namespace {

TEST(Frame, OfMoreBytesThanItHasOrOfAnUnknownKindMakesNoSense) {
  using Kind = FrameHeader::Kind;
  EXPECT_TRUE((FrameHeader{1, Frame::kPayloadBytes, Kind::kMessage, 0}).is_sane());
  EXPECT_FALSE((FrameHeader{1, Frame::kPayloadBytes + 1, Kind::kMessage, 0}).is_sane());
  EXPECT_TRUE((FrameHeader{1, std::uint64_t{1} << 40, Kind::kAsk, 1}).is_sane());  // of a long message
  EXPECT_FALSE((FrameHeader{1, 1, static_cast<Kind>(7), 0}).is_sane());
}

constexpr auto kFlows = [] { return true; };
constexpr auto kStands = [] { return false; };

TEST(MessageStream, ASingleMessageIsNone) {
  MessageStream stream;
  bool asked = false;
  EXPECT_FALSE(stream.runs(1, [&] { return asked = true; }));
  EXPECT_FALSE(asked);  // that costs a system call
}

TEST(MessageStream, BeginsWhenDataFlowAndLastsToTheLastMessage) {
  MessageStream stream;
  EXPECT_FALSE(stream.runs(2, kStands));
  EXPECT_TRUE(stream.runs(2, kFlows));
  EXPECT_TRUE(stream.runs(1, kStands));
  EXPECT_FALSE(stream.runs(0, kFlows));
  EXPECT_FALSE(stream.runs(1, kFlows));  // the next one begins anew
}

// However quick or slow messages seem: never a busy loop, never a long sleep.
TEST(MessageStream, TheNextLookIsSoonAndNotAtOnce) {
  MessageStream stream;
  ASSERT_TRUE(stream.runs(2, kFlows));
  auto now = MessageStream::Clock::now();
  for (const std::size_t ended : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 40}) {
    stream.note_end(ended);
    for (const std::size_t bytes : {MessageStream::kBig, std::size_t{1} << 20, std::size_t{1} << 40}) {
      now += std::chrono::milliseconds(5);
      const auto look = stream.next_look(bytes, now);
      EXPECT_GE(look, now + std::chrono::microseconds(50)) << bytes << " after " << ended;
      EXPECT_LE(look, now + std::chrono::milliseconds(10)) << bytes << " after " << ended;
    }
  }
}

// Each look finds one message that has ended, that long after the one before because the caller slept: a pause must not
// make all later looks late.
TEST(MessageStream, ThePaceIsFoundAgainAfterAPause) {
  constexpr std::size_t kBytes = MessageStream::kBig;
  MessageStream stream;
  ASSERT_TRUE(stream.runs(2, kFlows));
  auto now = MessageStream::Clock::now() + std::chrono::milliseconds(60);
  int looks = 0;
  for (auto slept = std::chrono::nanoseconds::max(); slept > std::chrono::microseconds(200) && looks < 100; ++looks) {
    stream.note_end(kBytes);
    const auto look = stream.next_look(kBytes, now);
    slept = look - now;
    now = look;
  }
  EXPECT_GT(looks, 1);
  EXPECT_LT(looks, 100);
}

}  // namespace
}  // namespace roda::gloo
