// Errors name the peer's world rank, and the setting that helps.
#include <gtest/gtest.h>

#include <barrier>
#include <string>

#include "tests/transports/thread_ranks.h"
#include "transports/gloo/gloo.h"

namespace roda::transport_test {
namespace {

const roda_transport* table() { return roda_gloo_transport(); }

TEST(GlooErrors, ACollectiveNamesTheRankThatLeft) {
  Board board;
  std::barrier formed(3);
  run_ranks(3, [&](int rank) {
    Member member(table(), board, rank, 3);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 2) return;  // leaves: its connections close
    std::vector<float> data(100000, 1.0f);
    roda_request* request = nullptr;
    ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK);
    EXPECT_EQ(member.wait(request), RODA_ERR_PEER) << member.text();
    // The other survivor fails too and closes: whoever looks late may see that one gone first.
    EXPECT_TRUE(member.error_rank() == 102 || member.error_rank() == 101 - rank || member.error_rank() == -1)
        << member.error_rank() << member.text();
    EXPECT_TRUE(contains(member.text(), "ALLREDUCE over group test")) << member.text();
    // Sticky: the next one ends with the same words.
    const std::string first = member.text();
    EXPECT_LT(member.allreduce(data.data(), data.size(), 2, &request), 0);
    EXPECT_EQ(first, member.text());
  });
}

TEST(GlooErrors, OfTwoRanksTheLostOneIsNamed) {
  Board board;
  std::barrier formed(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 1) return;
    std::vector<float> data(100000, 1.0f);
    roda_request* request = nullptr;
    ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK);
    EXPECT_EQ(member.wait(request), RODA_ERR_PEER) << member.text();
    EXPECT_EQ(member.error_rank(), 101) << member.text();
    EXPECT_TRUE(contains(member.text(), "lost the connection to rank 101")) << member.text();
  });
}

TEST(GlooErrors, AMessageNamesTheRankThatLeft) {
  Board board;
  std::barrier formed(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    roda_request* request = nullptr;
    char byte = 0;
    if (rank == 0) {
      ASSERT_EQ(member.receive(1, 5, &byte, 1, &request), RODA_OK);
    }
    formed.arrive_and_wait();
    if (rank == 1) return;
    EXPECT_EQ(member.wait(request), RODA_ERR_PEER) << member.text();
    EXPECT_EQ(member.error_rank(), 101);
    EXPECT_TRUE(contains(member.text(), "messages with rank 101 in group test")) << member.text();
  });
}

TEST(GlooErrors, AnAbsentRankInACollectiveIsATimeoutThatNamesTheSetting) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"HOROVOD_GLOO_TIMEOUT_SECONDS", "1"}});
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    if (rank == 0) {
      std::vector<float> data(1000, 1.0f);
      roda_request* request = nullptr;
      ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK);
      EXPECT_EQ(member.wait(request), RODA_ERR_TIMEOUT) << member.text();
      EXPECT_TRUE(contains(member.text(), "made no progress for 1 s")) << member.text();
      EXPECT_TRUE(contains(member.text(), "raise HOROVOD_GLOO_TIMEOUT_SECONDS")) << member.text();
    }
    over.arrive_and_wait();
  });
}

TEST(GlooErrors, AMessageThatNeverComesIsATimeoutThatNamesThePeer) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {}, 1'500'000'000);  // the group's own limit: no setting given
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    if (rank == 0) {
      roda_request* request = nullptr;
      char byte = 0;
      ASSERT_EQ(member.receive(1, 5, &byte, 1, &request), RODA_OK);
      EXPECT_EQ(member.wait(request), RODA_ERR_TIMEOUT) << member.text();
      EXPECT_EQ(member.error_rank(), 101);
      EXPECT_TRUE(contains(member.text(), "HOROVOD_GLOO_TIMEOUT_SECONDS")) << member.text();
    }
    over.arrive_and_wait();
  });
}

TEST(GlooErrors, AnInterfaceThatDoesNotExistIsNamedWithThoseThatDo) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"HOROVOD_GLOO_IFACE", "nosuch0"}});
    EXPECT_EQ(member.form(), RODA_ERR_UNAVAILABLE);
    EXPECT_TRUE(contains(member.text(), "HOROVOD_GLOO_IFACE=nosuch0 names no usable interface")) << member.text();
    EXPECT_TRUE(contains(member.text(), "lo (127.0.0.1)")) << member.text();
  });
}

TEST(GlooErrors, TheFirstUsableOfSeveralInterfacesIsTaken) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"HOROVOD_GLOO_IFACE", "nosuch0,lo"}});
    EXPECT_EQ(member.form(), RODA_OK) << member.text();
  });
}

TEST(GlooErrors, ABadTimeoutIsRefusedByName) {
  Board board;
  const Member member(table(), board, 0, 2, {{"HOROVOD_GLOO_TIMEOUT_SECONDS", "-3"}});
  EXPECT_EQ(member.code(), RODA_ERR_INVALID);
  EXPECT_STREQ(member.text(), "HOROVOD_GLOO_TIMEOUT_SECONDS=-3 is out of range; 1 to 2147483647 is expected");
}

}  // namespace
}  // namespace roda::transport_test
