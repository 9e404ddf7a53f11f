#include "plugins/base/framing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <numeric>
#include <random>

#include "plugins/base/unique_fd.h"

namespace roda {
namespace {

using Buffer = std::vector<std::uint8_t>;

class FramingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a_.reset(fds[0]);
    b_.reset(fds[1]);
  }
  void send_raw(const Buffer& bytes) {
    ASSERT_EQ(::send(a_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd a_, b_;
};

Buffer pattern(std::size_t size) {
  Buffer bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(size));
  return bytes;
}

TEST_F(FramingTest, FramesOfAllSizesComeOutAsTheyWentIn) {
  FrameWriter writer(1 << 20, 8 << 20);
  FrameReader reader(1 << 20);
  std::vector<Buffer> sent;
  for (std::size_t size : {0, 1, 3, 4, 5, 1000, 16 * 1024 - 4, 16 * 1024, 300'000, 1 << 20, 7}) {
    sent.push_back(pattern(size));
    bool accepted = false;
    ASSERT_TRUE(writer.push(sent.back(), &accepted).ok());
    ASSERT_TRUE(accepted);
  }
  std::vector<Buffer> received;
  while (received.size() < sent.size()) {
    ASSERT_TRUE(writer.flush(a_.get()).ok());
    Buffer frame;
    bool complete = false;
    ASSERT_TRUE(reader.receive(b_.get(), &frame, &complete).ok());
    if (complete) received.push_back(frame);
  }
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(writer.empty());
}

TEST_F(FramingTest, AFrameMayComeByteByByte) {
  FrameReader reader(100);
  Buffer stream = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0};
  int frames = 0;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    send_raw({stream[i]});
    Buffer frame;
    bool complete = false;
    ASSERT_TRUE(reader.receive(b_.get(), &frame, &complete).ok());
    EXPECT_EQ(complete, i == 6 || i == 10);
    if (i == 6) {
      EXPECT_EQ(frame, (Buffer{'a', 'b', 'c'}));
    }
    frames += complete;
  }
  EXPECT_EQ(frames, 2);
}

TEST_F(FramingTest, BufferedFramesAreKnown) {
  FrameReader reader(100);
  send_raw({1, 0, 0, 0, 'a', 1, 0, 0, 0, 'b'});
  Buffer frame;
  bool complete = false;
  ASSERT_TRUE(reader.receive(b_.get(), &frame, &complete).ok());
  EXPECT_TRUE(complete && reader.has_buffered_frame());
  ASSERT_TRUE(reader.receive(b_.get(), &frame, &complete).ok());
  EXPECT_TRUE(complete && !reader.has_buffered_frame());
}

TEST_F(FramingTest, AnOversizeLengthIsRefusedBeforeMemoryIsTaken) {
  FrameReader reader(100);
  send_raw({101, 0, 0, 0});
  Buffer frame;
  bool complete = false;
  for (int again = 0; again < 2; ++again) {
    Status status = reader.receive(b_.get(), &frame, &complete);
    EXPECT_EQ(status.code(), RODA_ERR_INVALID);
    EXPECT_EQ(status.message(), "a frame of 101 bytes was announced; the bound is 100");
    EXPECT_FALSE(complete);
  }
}

TEST_F(FramingTest, TheEndOfTheStreamSaysWhetherAFrameWasCut) {
  for (bool cut : {false, true}) {
    SetUp();
    FrameReader reader(100);
    if (cut) send_raw({5, 0, 0, 0, 'a'});
    a_.reset();
    Buffer frame;
    bool complete = false;
    Status status = reader.receive(b_.get(), &frame, &complete);
    if (status.ok()) status = reader.receive(b_.get(), &frame, &complete);
    EXPECT_EQ(status.code(), RODA_ERR_PEER);
    EXPECT_EQ(status.message(), cut ? "the connection was closed inside a frame" : "the connection was closed");
  }
}

TEST_F(FramingTest, ABoundedQueuePushesBack) {
  FrameWriter writer(1000, 1500);
  bool accepted = false;
  EXPECT_EQ(writer.push(pattern(1001), &accepted).code(), RODA_ERR_INVALID);
  ASSERT_TRUE(writer.push(pattern(1000), &accepted).ok());
  EXPECT_TRUE(accepted);
  ASSERT_TRUE(writer.push(pattern(1000), &accepted).ok());
  EXPECT_FALSE(accepted);
  ASSERT_TRUE(writer.flush(a_.get()).ok());
  EXPECT_TRUE(writer.empty());
  ASSERT_TRUE(writer.push(pattern(1000), &accepted).ok());
  EXPECT_TRUE(accepted);
}

TEST_F(FramingTest, WritingToAClosedPeerIsAPeerError) {
  FrameWriter writer(1000, 1500);
  bool accepted = false;
  b_.reset();
  ASSERT_TRUE(writer.push(pattern(10), &accepted).ok());
  EXPECT_EQ(writer.flush(a_.get()).code(), RODA_ERR_PEER);
}

TEST_F(FramingTest, RandomStreamsNeverYieldMoreThanTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    SetUp();
    FrameReader reader(64);
    Status status;
    for (int piece = 0; piece < 50 && status.ok(); ++piece) {
      Buffer bytes(1 + random() % 40);
      // Small numbers make plausible lengths likely.
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % (round % 2 == 0 ? 256 : 3));
      send_raw(bytes);
      bool complete = true;
      while (status.ok() && complete) {
        Buffer frame;
        status = reader.receive(b_.get(), &frame, &complete);
        EXPECT_LE(frame.size(), 64u);
      }
    }
  }
}

}  // namespace
}  // namespace roda
