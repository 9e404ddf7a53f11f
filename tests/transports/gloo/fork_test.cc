// Forked children hold none of Gloo's connections, and started programs inherit none.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/transports/connections.h"
#include "tests/transports/thread_ranks.h"
#include "transports/gloo/gloo.h"

namespace roda::transport_test {
namespace {

TEST(GlooFork, ConnectionsStayInTheirProcess) {
  Board board;
  std::barrier formed(2), looked(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(connections(false), 2);  // both ends of the one connection
      expect_no_connections_in_a_child([] {});
    }
    looked.arrive_and_wait();
    // The parent's connection is none the worse.
    std::vector<float> data(1000, 1.0f);
    roda_request* request = nullptr;
    ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK);
    EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
    EXPECT_EQ(data[0], 2.0f);
    formed.arrive_and_wait();
  });
}

}  // namespace
}  // namespace roda::transport_test
