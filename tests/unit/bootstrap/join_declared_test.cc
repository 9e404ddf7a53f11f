#include "core/bootstrap/join.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace roda {
namespace {

TEST(PortsAboveTest, LieAboveAndStayPorts) {
  EXPECT_EQ(ports_above(29500).front(), 29501);
  EXPECT_EQ(ports_above(29500).size(), 16u);
  for (const int port : {1, 29500, 65518, 65519, 65520, 65535}) {
    const std::vector<int> ports = ports_above(port);
    EXPECT_EQ(ports.size(), 16u);
    for (const int each : ports) EXPECT_TRUE(each > 0 && each < 65536 && each != port) << port << ' ' << each;
  }
}

// Rank 0 and rank 1 in one process, one after the other: the first serves before the second asks.
TEST(JoinDeclaredTest, RanksOfSeveralHostsMeetWhereTheAddressSays) {
  DeclaredJob job;
  job.launcher = "the environment";
  job.size = 2;
  job.address = "127.0.0.2";  // no loopback to those that don't look closely, as is_one_host says
  job.port = 45000;
  job.identity = "a test of two " + std::to_string(::getpid());
  Knobs knobs[2];
  Secret secret[2];
  std::unique_ptr<Store> store[2];
  for (int rank = 0; rank < 2; ++rank) {
    job.rank = rank;
    const Status status = join_declared_job(job, &knobs[rank], &secret[rank], &store[rank]);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(knobs[rank].rank, rank);
    EXPECT_EQ(knobs[rank].size, 2);
  }
  std::string value;
  ASSERT_TRUE(store[0]->put("key", "value").ok());
  ASSERT_TRUE(store[1]->wait("key", Store::Clock::now() + std::chrono::seconds(20), &value).ok());
  EXPECT_EQ(value, "value");
}

TEST(JoinDeclaredTest, AnErrorSaysWhatIsMissing) {
  DeclaredJob job;
  job.launcher = "mpirun";
  job.rank = 1;
  job.size = 4;
  job.evidence = "OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=4";
  Knobs knobs;
  Secret secret;
  std::unique_ptr<Store> store;
  const Status status = join_declared_job(job, &knobs, &secret, &store);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  EXPECT_NE(status.message().find("set MASTER_ADDR"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(job.evidence), std::string::npos) << status.message();
}

}  // namespace
}  // namespace roda
