// Errors name the peer's world rank, and the setting that helps.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <string>

#include "tests/transports/tcp/talk.h"
#include "tests/transports/thread_ranks.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

const roda_transport* table() { return roda_tcp_transport(); }

TEST(TcpErrors, ARankThatLeftIsNamed) {
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
    EXPECT_TRUE(contains(member.text(), "rank 101 (group test, 127.0.0.1:")) << member.text();
    EXPECT_TRUE(contains(member.text(), "has left the group")) << member.text();
    // It stays away.
    EXPECT_EQ(member.receive(1, 6, &byte, 1, &request), RODA_ERR_PEER);
    EXPECT_EQ(member.send(1, 6, &byte, 1, &request), RODA_ERR_PEER);
    EXPECT_EQ(table()->group_test(member.group(), nullptr), RODA_OK);
  });
}

// What was sent before leaving arrives all the same, whatever the receiver had written meanwhile.
TEST(TcpErrors, WhatWasDoneBeforeLeavingArrives) {
  constexpr std::size_t kBytes = 20000;
  Board board;
  std::barrier posted(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    talk(member, rank, 2);
    std::vector<char> data(kBytes, rank == 1 ? 'd' : 'x'), never(1 << 20);
    roda_request* request = nullptr;
    if (rank == 1) {
      for (std::uint64_t tag = 0; tag < 20; ++tag) {
        ASSERT_EQ(member.send(0, tag, data.data(), kBytes, &request), RODA_OK);
        ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
      }
      posted.arrive_and_wait();
      return;
    }
    ASSERT_EQ(member.receive(1, 99, never.data(), never.size(), &request), RODA_OK);
    table()->progress(member.context());  // tells the peer of a receive it will never meet
    posted.arrive_and_wait();
    for (std::uint64_t tag = 0; tag < 20; ++tag) {
      roda_request* received = nullptr;
      ASSERT_EQ(member.receive(1, tag, data.data(), kBytes, &received), RODA_OK) << member.text();
      EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
      EXPECT_EQ(data, std::vector<char>(kBytes, 'd'));
    }
    EXPECT_EQ(member.wait(request), RODA_ERR_PEER);
  });
}

// Those that are connected with it at once, and who connects later then.
void abort_one_of_three(bool is_early) {
  Board board;
  std::barrier formed(3), over(3);
  std::atomic<int> waiting{3};
  run_ranks(3, [&](int rank) {
    Member member(table(), board, rank, 3);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    if (is_early) talk(member, rank, 3);
    formed.arrive_and_wait();
    if (rank == 0) {
      member.abort(RODA_ERR_PRECONDITION, 107, "the disk of rank 107 is full");
      table()->progress(member.context());
    } else {
      roda_request* request = nullptr;
      char byte = 0;
      const int code = member.receive(is_early ? 3 - rank : 0, 5, &byte, 1, &request);
      EXPECT_EQ(code == RODA_OK ? member.wait(request) : code, RODA_ERR_PRECONDITION) << member.text();
      EXPECT_EQ(member.error_rank(), 107);
      EXPECT_STREQ(member.text(), "the disk of rank 107 is full");
    }
    --waiting;
    while (waiting > 0) member.progress();
    over.arrive_and_wait();
  });
}

TEST(TcpErrors, TheOthersAreToldWhyARankAborts) { abort_one_of_three(true); }
TEST(TcpErrors, WhoConnectsWithARankThatAbortedIsToldWhy) { abort_one_of_three(false); }

TEST(TcpErrors, AMessageThatNeverComesIsATimeoutThatNamesThePeer) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {}, 1'200'000'000);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    if (rank == 0) {
      roda_request* request = nullptr;
      char byte = 0;
      ASSERT_EQ(member.receive(1, 5, &byte, 1, &request), RODA_OK);
      EXPECT_EQ(member.wait(request), RODA_ERR_TIMEOUT) << member.text();
      EXPECT_EQ(member.error_rank(), 101);
      EXPECT_TRUE(contains(member.text(), "did not move for 1200 ms")) << member.text();
      EXPECT_TRUE(contains(member.text(), "HOROVOD_GLOO_TIMEOUT_SECONDS")) << member.text();
    }
    over.arrive_and_wait();
  });
}

TEST(TcpErrors, AnAbsentMemberIsNamed) {
  Board board;
  Member member(table(), board, 0, 3, {}, 200'000'000);
  EXPECT_EQ(member.form(), RODA_ERR_TIMEOUT);
  EXPECT_TRUE(contains(member.text(), "did not form in 200 ms; missing: rank 101")) << member.text();
}

TEST(TcpErrors, AnInterfaceThatDoesNotExistIsNamedWithThoseThatDo) {
  for (const char* setting : {"RODA_TCP_IFACE", "HOROVOD_GLOO_IFACE"}) {
    Board board;
    run_ranks(2, [&](int rank) {
      Member member(table(), board, rank, 2, {{setting, "nosuch0"}});
      EXPECT_EQ(member.form(), RODA_ERR_UNAVAILABLE);
      EXPECT_TRUE(contains(member.text(), (std::string(setting) + "=nosuch0 names no usable").c_str()))
          << member.text();
      EXPECT_TRUE(contains(member.text(), "lo (127.0.0.1)")) << member.text();
    });
  }
}

TEST(TcpErrors, OurOwnInterfaceSettingComesFirst) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"RODA_TCP_IFACE", "nosuch0,lo"}, {"HOROVOD_GLOO_IFACE", "nosuch0"}});
    EXPECT_EQ(member.form(), RODA_OK) << member.text();
  });
}

TEST(TcpErrors, ABadNumberIsRefusedByName) {
  Board board;
  const Member member(table(), board, 0, 2, {{"RODA_TCP_LANES", "many"}});
  EXPECT_EQ(member.code(), RODA_ERR_INVALID);
  EXPECT_STREQ(member.text(), "RODA_TCP_LANES=many is not a number; 1 to 16 is expected");
}

// While it lives this process can open nothing more.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(STDERR_FILENO);
    ::close(lowest_free);
    const rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

// Both in this thread, so that one of them lacks descriptors and the other has its own.
void expect_no_descriptors_of(bool is_dialler) {
  Board board;
  Member dialler(table(), board, 0, 2), listener(table(), board, 1, 2);
  for (bool forms = true; forms;) {
    forms = dialler.test() == RODA_IN_PROGRESS;
    forms = listener.test() == RODA_IN_PROGRESS || forms;
  }
  ASSERT_EQ(dialler.code(), RODA_OK) << dialler.text();
  ASSERT_EQ(listener.code(), RODA_OK) << listener.text();
  roda_request* request = nullptr;
  int code = RODA_OK;
  if (!is_dialler) {
    ASSERT_EQ(dialler.send(1, 7, "t", 1, &request), RODA_OK) << dialler.text();
  }
  {
    const NoDescriptors none;
    if (is_dialler) code = dialler.send(1, 7, "t", 1, &request);
    while (!is_dialler && (code = listener.test()) == RODA_OK) listener.progress();
  }
  const Member& lacking = is_dialler ? dialler : listener;
  EXPECT_EQ(code, RODA_ERR_SYSTEM);
  EXPECT_EQ(lacking.error_rank(), is_dialler ? 100 : 101);
  EXPECT_EQ(lacking.text(),
            "tcp: rank " + std::to_string(lacking.error_rank()) + " has no free file descriptors: raise ulimit -n");
}

TEST(TcpErrors, WhoCanTakeNoConnectionForWantOfDescriptorsSaysSo) { expect_no_descriptors_of(false); }
TEST(TcpErrors, WhoCanMakeNoConnectionForWantOfDescriptorsSaysSo) { expect_no_descriptors_of(true); }

TEST(TcpErrors, ThereIsNoMessageToOneself) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    roda_request* request = nullptr;
    char byte = 0;
    EXPECT_EQ(member.send(rank, 1, &byte, 1, &request), RODA_ERR_INVALID);
  });
}

}  // namespace
}  // namespace roda::transport_test
