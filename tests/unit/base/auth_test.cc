#include "plugins/base/auth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace roda {
namespace {

Secret make_secret(std::uint8_t fill) { return Secret(std::vector<std::uint8_t>(32, fill)); }

// Moves bytes both ways in pieces of `piece` until nothing moves. Returns the first error of each side.
std::pair<Status, Status> talk(Handshake& client, Handshake& server, std::size_t piece) {
  Status client_status, server_status;
  auto move = [&](Handshake& from, Handshake& to, Status& status) {
    std::size_t count = std::min({piece, from.output().size(), to.wanted()});
    if (count == 0 || !status.ok()) return false;
    std::vector<std::uint8_t> bytes(from.output().begin(), from.output().begin() + static_cast<std::ptrdiff_t>(count));
    from.consume_output(count);
    status = to.feed(bytes);
    return true;
  };
  while (move(client, server, server_status) || move(server, client, client_status)) {
  }
  return {client_status, server_status};
}

TEST(Hmac, Rfc4231) {
  Digest digest;
  std::vector<std::uint8_t> key(20, 0x0b);
  const std::uint8_t data[] = {'H', 'i', ' ', 'T', 'h', 'e', 'r', 'e'};
  ASSERT_TRUE(hmac_sha256(key, {Bytes(data).first(3), Bytes(data).subspan(3)}, &digest).ok());
  const Digest expected = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
                           0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
                           0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
  EXPECT_EQ(digest, expected);
}

TEST(Hmac, ComparisonSeesEveryByte) {
  Digest a{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    Digest b = a;
    b[i] ^= 1;
    EXPECT_FALSE(equal_constant_time(a, b));
  }
  EXPECT_TRUE(equal_constant_time(a, a));
  EXPECT_FALSE(equal_constant_time(a, Bytes(a).first(31)));
}

class HandshakeTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HandshakeTest, BothSidesWithTheSecretAreDone) {
  Handshake client(Handshake::Role::kClient, make_secret(1), 7);
  Handshake server(Handshake::Role::kServer, make_secret(1), 7);
  ASSERT_TRUE(client.start().ok());
  ASSERT_TRUE(server.start().ok());
  auto [client_status, server_status] = talk(client, server, GetParam());
  EXPECT_TRUE(client_status.ok()) << client_status.message();
  EXPECT_TRUE(server_status.ok()) << server_status.message();
  EXPECT_TRUE(client.done());
  EXPECT_TRUE(server.done());
  EXPECT_EQ(client.wanted() + server.wanted(), 0u);
  EXPECT_TRUE(client.output().empty() && server.output().empty());
}

TEST_P(HandshakeTest, AWrongSecretIsRefusedOnBothSides) {
  Handshake client(Handshake::Role::kClient, make_secret(1), 7);
  Handshake server(Handshake::Role::kServer, make_secret(2), 7);
  ASSERT_TRUE(client.start().ok() && server.start().ok());
  auto [client_status, server_status] = talk(client, server, GetParam());
  EXPECT_EQ(server_status.code(), RODA_ERR_AUTH);
  EXPECT_EQ(server_status.message(), "it does not know the job's secret");
  EXPECT_EQ(client_status.message(), "it refused our proof: the two sides have different secrets");
  EXPECT_FALSE(client.done() || server.done());
}

TEST_P(HandshakeTest, AnotherServiceIsRefused) {
  Handshake client(Handshake::Role::kClient, make_secret(1), 7);
  Handshake server(Handshake::Role::kServer, make_secret(1), 8);
  ASSERT_TRUE(client.start().ok() && server.start().ok());
  auto [client_status, server_status] = talk(client, server, GetParam());
  EXPECT_EQ(server_status.message(), "it looks for service 7, this is service 8");
  EXPECT_EQ(client_status.message(), "it is not the listener for service 7 of this protocol");
}

INSTANTIATE_TEST_SUITE_P(Pieces, HandshakeTest, ::testing::Values(1, 3, 40, 1000));

TEST(Handshake, AServerThatCannotProveItselfIsRefused) {
  Handshake client(Handshake::Role::kClient, make_secret(1), 7);
  ASSERT_TRUE(client.start().ok());
  // A well-formed challenge, then an "accepted" with a made-up proof.
  std::vector<std::uint8_t> challenge = {'r', 'o', 'd', 'a', 1, 0, 0, 0};
  challenge.resize(40, 9);
  ASSERT_TRUE(client.feed(challenge).ok());
  Status status = client.feed(std::vector<std::uint8_t>(34, 0));
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_FALSE(client.done());
}

TEST(Handshake, AReflectedProofIsRefused) {
  // The attacker answers the client with the client's own bytes.
  Handshake client(Handshake::Role::kClient, make_secret(1), 0);
  ASSERT_TRUE(client.start().ok());
  std::vector<std::uint8_t> hello(client.output().begin(), client.output().end());
  client.consume_output(hello.size());
  ASSERT_TRUE(client.feed(hello).ok());
  std::vector<std::uint8_t> answer = {0, 0};
  answer.insert(answer.end(), client.output().begin(), client.output().end());
  EXPECT_EQ(client.feed(answer).code(), RODA_ERR_AUTH);
}

TEST(Handshake, AReplayedSessionIsRefused) {
  Handshake client(Handshake::Role::kClient, make_secret(1), 7);
  Handshake first(Handshake::Role::kServer, make_secret(1), 7);
  Handshake second(Handshake::Role::kServer, make_secret(1), 7);
  ASSERT_TRUE(client.start().ok() && first.start().ok() && second.start().ok());
  std::vector<std::uint8_t> hello(client.output().begin(), client.output().end());
  client.consume_output(hello.size());
  ASSERT_TRUE(first.feed(hello).ok());
  ASSERT_TRUE(client.feed(first.output()).ok());
  std::vector<std::uint8_t> proof(client.output().begin(), client.output().end());
  ASSERT_TRUE(first.feed(proof).ok());
  ASSERT_TRUE(second.feed(hello).ok());
  EXPECT_EQ(second.feed(proof).code(), RODA_ERR_AUTH);
}

TEST(Handshake, GarbageIsRefusedAtItsFirstBytesAndNeverRead) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Handshake server(Handshake::Role::kServer, make_secret(1), 7);
    ASSERT_TRUE(server.start().ok());
    std::size_t read = 0;
    Status status;
    while (status.ok() && server.wanted() > 0) {
      std::uint8_t byte = static_cast<std::uint8_t>(random());
      // Half of the rounds get past the magic.
      if (round % 2 == 0 && read < 4) byte = static_cast<std::uint8_t>("roda"[read]);
      status = server.feed({&byte, 1});
      ++read;
    }
    EXPECT_EQ(status.code(), RODA_ERR_AUTH);
    EXPECT_FALSE(server.done());
    EXPECT_LE(read, 72u);
  }
}

TEST(Handshake, AShortSecretIsNotUsed) {
  Handshake server(Handshake::Role::kServer, Secret(std::vector<std::uint8_t>(15, 1)), 7);
  Status status = server.start();
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_EQ(status.message(), "the job's secret has 15 bytes; 16 to 4096 are needed");
}

}  // namespace
}  // namespace roda
