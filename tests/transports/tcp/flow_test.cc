// Windows, lanes and pieces, with sizes small enough to reach every path.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <numeric>
#include <string>

#include "tests/transports/tcp/talk.h"
#include "tests/transports/thread_ranks.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

std::vector<char> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<char> data(bytes);
  for (char& byte : data) byte = static_cast<char>((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 56);
  return data;
}

// `body` on two ranks that have formed a group, each with its own knobs; both stay until both are through.
void run_pair(const Knobs& first, const Knobs& second, const std::function<void(Member&, int rank)>& body) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_tcp_transport(), board, rank, 2, rank == 0 ? first : second);
    EXPECT_EQ(member.form(), RODA_OK) << member.text();
    if (member.code() == RODA_OK) talk(member, rank, 2);
    if (member.code() == RODA_OK) body(member, rank);
    over.arrive_and_wait();
  });
}

TEST(TcpFlow, BeyondTheWindowMessagesWaitAtTheSender) {
  constexpr std::uint64_t kMessages = 100;
  constexpr std::size_t kBytes = 100;
  Board board;
  std::barrier sent(2), over(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_tcp_transport(), board, rank, 2, {{"RODA_TEST_TCP_WINDOW_BYTES", "2000"}});
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    talk(member, rank, 2);
    std::vector<roda_request*> requests(kMessages);
    std::vector<std::vector<char>> data;
    for (std::uint64_t i = 0; i < kMessages; ++i) data.push_back(pattern(rank == 0 ? kBytes : 0, i));
    int waiting = 0;
    for (std::uint64_t i = 0; i < kMessages && rank == 0; ++i) {
      ASSERT_EQ(member.send(1, 1, data[i].data(), kBytes, &requests[i]), RODA_OK);
      if (requests[i] != nullptr) ++waiting;
    }
    if (rank == 0) {
      EXPECT_EQ(waiting, 100 - (2000 - 65) / (100 + 64));  // the first byte took of it, too
    }
    sent.arrive_and_wait();
    for (std::uint64_t i = 0; i < kMessages && rank == 1; ++i) {
      data[i].resize(kBytes);
      ASSERT_EQ(member.receive(0, 1, data[i].data(), kBytes, &requests[i]), RODA_OK);
    }
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(member.wait(requests[i]), RODA_OK) << member.text();
      EXPECT_EQ(data[i], pattern(kBytes, i)) << i;
    }
    over.arrive_and_wait();
  });
}

TEST(TcpFlow, TheWindowComesBack) {
  run_pair({{"RODA_TEST_TCP_WINDOW_BYTES", "1000"}}, {{"RODA_TEST_TCP_WINDOW_BYTES", "1000"}},
           [](Member& member, int rank) {
             for (int round = 0; round < 200; ++round) {
               roda_request* request = nullptr;
               int value = round;
               if ((rank + round) % 2 == 0) {
                 ASSERT_EQ(member.send(1 - rank, 1, &value, sizeof value, &request), RODA_OK);
                 if (round > 190) {
                   EXPECT_EQ(request, nullptr) << "announced in round " << round;
                 }
               } else {
                 ASSERT_EQ(member.receive(1 - rank, 1, &value, sizeof value, &request), RODA_OK);
               }
               ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
               EXPECT_EQ(value, round);
             }
           });
}

TEST(TcpFlow, WithoutAWindowEverythingIsAnnounced) {
  run_pair({{"RODA_TEST_TCP_WINDOW_BYTES", "0"}}, {{"RODA_TEST_TCP_WINDOW_BYTES", "0"}}, [](Member& member, int rank) {
    for (const std::size_t bytes : {0u, 1u, 5000u, 100000u}) {
      const std::vector<char> out = pattern(bytes, bytes + static_cast<unsigned>(rank));
      std::vector<char> in(bytes);
      roda_request *sent = nullptr, *received = nullptr;
      ASSERT_EQ(member.send(1 - rank, bytes, out.data(), bytes, &sent), RODA_OK);
      ASSERT_EQ(member.receive(1 - rank, bytes, in.data(), bytes, &received), RODA_OK);
      EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
      EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
      EXPECT_EQ(in, pattern(bytes, bytes + static_cast<unsigned>(1 - rank)));
    }
  });
}

TEST(TcpFlow, TooManySendsAreAskedToTryAgain) {
  Board board;
  std::barrier full(2), over(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_tcp_transport(), board, rank, 2, {{"RODA_TEST_TCP_WINDOW_BYTES", "0"}});
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    talk(member, rank, 2);
    std::vector<roda_request*> requests;
    char byte = 'b';
    int code = RODA_OK;
    while (rank == 0 && code == RODA_OK && requests.size() < 100000) {
      roda_request* request = nullptr;
      code = member.send(1, 1, &byte, 1, &request);
      if (code == RODA_OK) requests.push_back(request);
    }
    if (rank == 0) {
      EXPECT_EQ(code, RODA_AGAIN);
    }
    full.arrive_and_wait();
    const std::size_t count = 4096;
    if (rank == 0) {
      EXPECT_EQ(requests.size(), count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      roda_request* request = rank == 0 ? requests[i] : nullptr;
      if (rank == 1) {
        ASSERT_EQ(member.receive(0, 1, &byte, 1, &request), RODA_OK);
      }
      ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
    }
    over.arrive_and_wait();
  });
}

// Long and short messages in both directions, over lanes and in pieces of every number.
void swap_many(Member& member, int rank) {
  constexpr std::size_t kSizes[] = {1, 300000, 4096, 4097, 0, 65536, 1 << 20, 33000};
  std::vector<std::vector<char>> in, out;
  std::vector<roda_request*> requests;
  for (const std::size_t bytes : kSizes) {
    out.push_back(pattern(bytes, bytes + static_cast<unsigned>(rank)));
    in.emplace_back(bytes);
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    roda_request *sent = nullptr, *received = nullptr;
    ASSERT_EQ(member.send(1 - rank, 3, out[i].data(), out[i].size(), &sent), RODA_OK);
    ASSERT_EQ(member.receive(1 - rank, 3, in[i].data(), in[i].size(), &received), RODA_OK);
    requests.insert(requests.end(), {sent, received});
  }
  for (roda_request* request : requests) ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(in[i], pattern(kSizes[i], kSizes[i] + static_cast<unsigned>(1 - rank))) << i;
  }
}

TEST(TcpFlow, SeveralLanes) {
  const Knobs knobs = {
      {"RODA_TCP_LANES", "3"}, {"RODA_TEST_TCP_CHUNK_BYTES", "4096"}, {"RODA_TEST_TCP_EAGER_BYTES", "1000"}};
  run_pair(knobs, knobs, [](Member& member, int rank) {
    for (int round = 0; round < 10; ++round) swap_many(member, rank);
  });
}

TEST(TcpFlow, TheEndsMayBeSetDifferently) {
  run_pair({{"RODA_TCP_LANES", "4"}, {"RODA_TEST_TCP_EAGER_BYTES", "100000"}, {"RODA_TEST_TCP_CHUNK_BYTES", "5000"}},
           {{"RODA_TCP_LANES", "2"}, {"RODA_TEST_TCP_EAGER_BYTES", "0"}, {"RODA_TEST_TCP_WINDOW_BYTES", "300"}},
           [](Member& member, int rank) {
             for (int round = 0; round < 10; ++round) swap_many(member, rank);
           });
}

// One side's message is short, the other's long: the receiver's error, and the tag's neighbours are none the worse.
TEST(TcpFlow, LengthsThatDifferAcrossTheLimit) {
  struct {
    std::size_t sent, expected;
  } const kCases[] = {{100, 100000}, {100000, 100}, {0, 100000}, {100000, 0}, {100, 0}, {50000, 100000}};
  run_pair({}, {}, [&](Member& member, int rank) {
    std::uint64_t tag = 0;
    for (const auto& c : kCases) {
      for (const bool early : {true, false}) {
        ++tag;
        std::vector<char> data(std::max(c.sent, c.expected) + 1);
        char ball = 0;
        roda_request *request = nullptr, *go = nullptr;
        const auto post = [&] {
          int code = rank == 0 ? member.send(1, tag, data.data(), c.sent, &request)
                               : member.receive(0, tag, data.data(), c.expected, &request);
          if (code == RODA_OK) code = member.wait(request);
          if (rank == 0) {
            EXPECT_EQ(code, RODA_OK) << c.sent << " " << c.expected << member.text();
          }
          if (rank == 1) {
            EXPECT_EQ(code, RODA_ERR_INVALID) << c.sent << " " << c.expected;
          }
          if (rank == 1) {
            EXPECT_NE(std::string(member.text()).find("rank 100"), std::string::npos) << member.text();
          }
        };
        // The receive first, or the message first.
        if (early == (rank == 1)) {
          ASSERT_EQ(member.send(1 - rank, 1000, &ball, 1, &go), RODA_OK);
          post();
        } else {
          ASSERT_EQ(member.receive(1 - rank, 1000, &ball, 1, &go), RODA_OK);
          ASSERT_EQ(member.wait(go), RODA_OK);
          post();
        }
      }
    }
    swap_many(member, rank);
  });
}

// Address space of any length over a little memory.
class Repeated {
 public:
  explicit Repeated(std::size_t bytes) : bytes_(bytes) {
    const int fd = ::memfd_create("repeated", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd, kPiece), 0);
    data_ = static_cast<char*>(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      ::mmap(data_ + at, std::min(kPiece, bytes - at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    }
    ::close(fd);
  }
  ~Repeated() { ::munmap(data_, bytes_); }
  char* data() { return data_; }

 private:
  static constexpr std::size_t kPiece = 64 << 20;
  const std::size_t bytes_;
  char* data_;
};

TEST(TcpFlow, MoreThanTwoGiBInOneMessage) {
  constexpr std::size_t kBytes = (std::size_t{2} << 30) + 12345;
  run_pair({}, {}, [](Member& member, int rank) {
    Repeated memory(kBytes);
    if (rank == 0) std::memset(memory.data(), 'y', 1 << 20);
    roda_request* request = nullptr;
    ASSERT_EQ(rank == 0 ? member.send(1, 1, memory.data(), kBytes, &request)
                        : member.receive(0, 1, memory.data(), kBytes, &request),
              RODA_OK);
    EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
    EXPECT_EQ(memory.data()[kBytes - 1], 'y');  // 12,344 bytes into a piece
  });
}

}  // namespace
}  // namespace roda::transport_test
