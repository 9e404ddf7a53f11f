// Between two network namespaces, as between two hosts. Ranks are threads, each in a namespace of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <string>

#include "tests/transports/thread_ranks.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

bool run(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }

// Two namespaces, joined by one cable for each pair of addresses. Interfaces are called cable0, cable1 at both ends.
class TcpHosts : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : names_) run("ip netns del " + name);
  }

  // False where that needs rights that we lack.
  bool make(const std::vector<std::pair<std::string, std::string>>& cables) {
    for (const std::string& name : names_) {
      if (!run("ip netns add " + name) || !run("ip -n " + name + " link set lo up")) return false;
    }
    for (std::size_t i = 0; i < cables.size(); ++i) {
      const std::string cable = "cable" + std::to_string(i);
      if (!run("ip link add " + cable + " netns " + names_[0] + " type veth peer name " + cable + " netns " +
               names_[1]))
        return false;
      for (int end = 0; end < 2; ++end) {
        const std::string& address = end == 0 ? cables[i].first : cables[i].second;
        const std::string nodad = address.find(':') != std::string::npos ? " nodad" : "";
        if (!run("ip -n " + names_[end] + " addr add " + address + " dev " + cable + nodad)) return false;
        if (!run("ip -n " + names_[end] + " link set " + cable + " up")) return false;
      }
    }
    return true;
  }

  // Of the calling thread.
  bool enter(int rank) const {
    const int fd = ::open(("/run/netns/" + names_[rank]).c_str(), O_RDONLY | O_CLOEXEC);
    const bool entered = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) ::close(fd);
    return entered;
  }

  const std::string names_[2] = {"roda0-" + std::to_string(::getpid()), "roda1-" + std::to_string(::getpid())};
};

void swap(Member& member, int rank, std::size_t bytes) {
  std::vector<char> out(bytes, static_cast<char>('0' + rank)), in(bytes);
  roda_request *sent = nullptr, *received = nullptr;
  ASSERT_EQ(member.receive(1 - rank, bytes, in.data(), bytes, &received), RODA_OK) << member.text();
  ASSERT_EQ(member.send(1 - rank, bytes, out.data(), bytes, &sent), RODA_OK) << member.text();
  EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
  EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
  EXPECT_EQ(in, std::vector<char>(bytes, static_cast<char>('1' - rank)));
}

// Rank 1 leaves; rank 0 tells where it was.
std::string address_of_rank_1(Member& member, int rank) {
  if (rank == 1) {
    member.leave();
    return "";
  }
  char byte = 0;
  roda_request* request = nullptr;
  const int code = member.receive(1, 99, &byte, 1, &request);
  EXPECT_EQ(code == RODA_OK ? member.wait(request) : code, RODA_ERR_PEER);
  return member.text();
}

TEST_F(TcpHosts, OverIPv4) {
  if (!make({{"10.78.0.1/24", "10.78.0.2/24"}})) GTEST_SKIP() << "no right to make network namespaces";
  Board board;
  run_ranks(2, [&](int rank) {
    ASSERT_TRUE(enter(rank));
    Member member(roda_tcp_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    for (const std::size_t bytes : {1u, 30000u, 5000000u}) swap(member, rank, bytes);
    const std::string text = address_of_rank_1(member, rank);
    if (rank == 0) {
      EXPECT_NE(text.find("10.78.0.2:"), std::string::npos) << text;
    }
  });
}

TEST_F(TcpHosts, OverIPv6Alone) {
  if (!make({{"fd78::1/64", "fd78::2/64"}})) GTEST_SKIP() << "no right to make network namespaces";
  Board board;
  run_ranks(2, [&](int rank) {
    ASSERT_TRUE(enter(rank));
    Member member(roda_tcp_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    swap(member, rank, 300000);
    const std::string text = address_of_rank_1(member, rank);
    if (rank == 0) {
      EXPECT_NE(text.find("[fd78::2]:"), std::string::npos) << text;
    }
  });
}

TEST_F(TcpHosts, TheInterfaceCanBeNamed) {
  if (!make({{"10.78.0.1/24", "10.78.0.2/24"}, {"10.79.0.1/24", "10.79.0.2/24"}})) {
    GTEST_SKIP() << "no right to make network namespaces";
  }
  Board board;
  run_ranks(2, [&](int rank) {
    ASSERT_TRUE(enter(rank));
    Member member(roda_tcp_transport(), board, rank, 2, {{"RODA_TCP_IFACE", "cable1"}});
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    const std::string text = address_of_rank_1(member, rank);
    if (rank == 0) {
      EXPECT_NE(text.find("10.79.0.2:"), std::string::npos) << text;
    }
  });
}

// Nothing closes a connection then: only the limits tell.
TEST_F(TcpHosts, ACableThatIsPulledEndsOperationsWithinTheLimit) {
  if (!make({{"10.78.0.1/24", "10.78.0.2/24"}})) GTEST_SKIP() << "no right to make network namespaces";
  Board board;
  std::barrier formed(2), pulled(2);
  run_ranks(2, [&](int rank) {
    ASSERT_TRUE(enter(rank));
    Member member(roda_tcp_transport(), board, rank, 2, {}, 1'500'000'000);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    swap(member, rank, 100000);
    formed.arrive_and_wait();
    if (rank == 0) {
      EXPECT_TRUE(run("ip -n " + names_[0] + " link set cable0 down"));
    }
    pulled.arrive_and_wait();
    std::vector<char> data(64 << 20);
    roda_request* request = nullptr;
    ASSERT_EQ(rank == 0 ? member.send(1, 1, data.data(), data.size(), &request)
                        : member.receive(0, 1, data.data(), data.size(), &request),
              RODA_OK);
    const int code = member.wait(request);
    EXPECT_TRUE(code == RODA_ERR_TIMEOUT || code == RODA_ERR_PEER) << code << " " << member.text();
    EXPECT_EQ(member.error_rank(), 101 - rank) << member.text();
  });
}

// The address is there, but nobody answers.
TEST_F(TcpHosts, ACableThatIsPulledBeforeConnectingEndsTheFirstMessage) {
  if (!make({{"10.78.0.1/24", "10.78.0.2/24"}})) GTEST_SKIP() << "no right to make network namespaces";
  Board board;
  std::barrier formed(2), pulled(2);
  run_ranks(2, [&](int rank) {
    ASSERT_TRUE(enter(rank));
    Member member(roda_tcp_transport(), board, rank, 2, {}, 1'500'000'000);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 0) {
      EXPECT_TRUE(run("ip -n " + names_[0] + " link set cable0 down"));
    }
    pulled.arrive_and_wait();
    char byte = 'b';
    roda_request* request = nullptr;
    int code = rank == 0 ? member.send(1, 1, &byte, 1, &request) : member.receive(0, 1, &byte, 1, &request);
    if (code == RODA_OK) code = member.wait(request);
    EXPECT_TRUE(code == RODA_ERR_TIMEOUT || code == RODA_ERR_PEER) << code << " " << member.text();
    EXPECT_EQ(member.error_rank(), 101 - rank) << member.text();
    pulled.arrive_and_wait();
  });
}

}  // namespace
}  // namespace roda::transport_test
