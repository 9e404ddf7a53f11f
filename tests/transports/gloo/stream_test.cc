#include "transports/gloo/message_stream.h"

#include <gtest/gtest.h>

namespace roda::gloo {
namespace {

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

// However long nothing has come, and however quick messages seemed: never a busy loop, never a long sleep.
TEST(MessageStream, TheNextLookIsSoonAndNotAtOnce) {
  MessageStream stream;
  ASSERT_TRUE(stream.runs(2, kFlows));
  for (int i = 0; i < 1000; ++i) stream.note_end(std::size_t{1} << 40);
  for (const std::size_t bytes : {MessageStream::kBig, std::size_t{1} << 20, std::size_t{1} << 45}) {
    const auto before = MessageStream::Clock::now();
    const auto look = stream.next_look(bytes);
    const auto after = MessageStream::Clock::now();
    EXPECT_GE(look, before + std::chrono::microseconds(50)) << bytes;
    EXPECT_LE(look, after + std::chrono::milliseconds(10)) << bytes;
  }
}

}  // namespace
}  // namespace roda::gloo
