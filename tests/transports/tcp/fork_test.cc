// Forked children hold none of our connections, and started programs inherit none.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/transports/tcp/talk.h"
#include "tests/transports/thread_ranks.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

TEST(TcpFork, ConnectionsStayInTheirProcess) {
  Board board;
  std::barrier formed(2), looked(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_tcp_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    talk(member, rank, 2);
    while (connections(false) != 2) member.progress();  // both may have connected at once
    formed.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(connections(false), 2);  // both ends of the one connection
      expect_no_connections_in_a_child([&] { member.leave(); });
    }
    looked.arrive_and_wait();
    // The parent's connection is none the worse.
    int out = rank, in = -1;
    roda_request *sent = nullptr, *received = nullptr;
    ASSERT_EQ(member.send(1 - rank, 1, &out, sizeof out, &sent), RODA_OK) << member.text();
    ASSERT_EQ(member.receive(1 - rank, 1, &in, sizeof in, &received), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
    EXPECT_EQ(in, 1 - rank);
    formed.arrive_and_wait();
  });
}

}  // namespace
}  // namespace roda::transport_test
