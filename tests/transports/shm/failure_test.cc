// How groups end: deaths, aborts, time-outs, forks, leftovers.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/transports/shm/ranks.h"

namespace roda::shm_test {
namespace {

std::string message_of(const Member& member) { return member.error().message; }

TEST(Death, EverybodyLearnsWhoDied) {
  Board board;
  run_ranks(
      3,
      [&](int rank) {
        Member member(board, rank, 3);
        ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
        member.barrier();
        if (rank == 1) ::raise(SIGKILL);
        std::vector<unsigned char> data(100);
        roda_request* receiving = member.start_recv(1, 1, data.data(), data.size());
        EXPECT_EQ(member.wait_for_abort(), RODA_ERR_PEER);
        EXPECT_EQ(member.error().rank, 101);
        EXPECT_NE(message_of(member).find("died"), std::string::npos) << message_of(member);
        EXPECT_EQ(member.wait(receiving), RODA_ERR_PEER);
        roda_error error{};
        EXPECT_EQ(member.t.signal(member.group, 2, 0, 1, &error), RODA_ERR_PEER);
        EXPECT_EQ(error.rank, 101);
      },
      1);
}

void limit_address_space(std::uint64_t left) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + left;
  const rlimit both{most, most};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &both), 0);
}

// One rank has little address space. All mappings fit into that, and room is left for the program and more groups.
TEST(Limits, OnAddressSpaceMakeSegmentsShortOnAllRanks) {
  Board board;
  run_ranks(3, [&](int rank) {
    constexpr std::uint64_t kLeft = std::uint64_t{1} << 30;
    if (rank == 1) limit_address_space(kLeft);
    Member member(board, rank, 3);
    roda_error error{};
    EXPECT_EQ(member.t.suits(nullptr, 3, &error), RODA_OK) << error.message;
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    roda_memory memory{};
    EXPECT_EQ(member.t.memory_alloc(member.group, 32 << 20, &memory, nullptr), RODA_OK);
    EXPECT_EQ(member.t.memory_alloc(member.group, kLeft / 3, &memory, nullptr), RODA_ERR_NO_MEMORY);
    void* const more = ::mmap(nullptr, kLeft / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(more, MAP_FAILED);
    member.barrier();
  });
}

TEST(Limits, WithoutRoomAllRanksAreToldWhose) {
  Board board;
  run_ranks(3, [&](int rank) {
    if (rank == 1) limit_address_space(std::uint64_t{300} << 20);
    Member member(board, rank, 3);
    roda_error error{};
    EXPECT_EQ(member.t.suits(nullptr, 3, &error), rank == 1 ? RODA_ERR_UNAVAILABLE : RODA_OK) << error.message;
    EXPECT_EQ(member.form(), RODA_ERR_UNAVAILABLE);
    EXPECT_NE(message_of(member).find("RLIMIT_AS, `ulimit -v`"), std::string::npos) << message_of(member);
    EXPECT_TRUE(rank == 1 || member.error().rank == 101) << member.error().rank;
    board.barrier(3);
  });
}

TEST(Limits, OnFilesMakeASegmentShort) {
  Board board;
  run_ranks(2, [&](int rank) {
    const rlimit both{64 << 20, 64 << 20};
    ASSERT_EQ(rank == 1 ? ::setrlimit(RLIMIT_FSIZE, &both) : 0, 0);
    Member member(board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    roda_memory memory{};
    EXPECT_EQ(member.t.memory_alloc(member.group, 64 << 20, &memory, nullptr),
              rank == 1 ? RODA_ERR_NO_MEMORY : RODA_OK);
    member.barrier();
  });
}

TEST(Death, BufferOfAPendingSendQuiesces) {
  Board board;
  run_ranks(
      2,
      [&](int rank) {
        Member member(board, rank, 2);
        ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
        member.barrier();
        if (rank == 1) ::raise(SIGKILL);
        std::vector<unsigned char> data(1'000'000);
        roda_request* sending = member.start_send(1, 1, data.data(), data.size());
        EXPECT_EQ(member.wait_for_abort(), RODA_ERR_PEER);
        EXPECT_EQ(member.wait(sending), RODA_ERR_PEER);
        EXPECT_EQ(member.t.quiesced(member.group, data.data(), data.size()), 1);
      },
      1);
}

TEST(Abort, ReachesSleepingPeersWithItsCause) {
  Board board;
  run_ranks(3, [&](int rank) {
    Member member(board, rank, 3);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    roda_memory memory{};
    ASSERT_EQ(member.t.memory_alloc(member.group, 4096, &memory, nullptr), RODA_OK);
    member.barrier();
    std::vector<unsigned char> data(1000);
    roda_request* receiving = member.start_recv((rank + 1) % 3, 1, data.data(), data.size());
    if (rank == 0) {
      roda_error cause{sizeof(roda_error), RODA_ERR_PRECONDITION, 177, "the dog ate it"};
      std::thread other([&] { member.t.group_abort(member.group, &cause); });
      other.join();
      roda_error later{sizeof(roda_error), RODA_ERR_UNKNOWN, 1, "too late"};
      member.t.group_abort(member.group, &later);
    }
    EXPECT_EQ(member.wait_for_abort(), RODA_ERR_PRECONDITION);
    EXPECT_EQ(message_of(member), "the dog ate it");
    EXPECT_EQ(member.error().rank, 177);
    EXPECT_EQ(member.wait(receiving), RODA_ERR_PRECONDITION);
    // Everybody has acknowledged soon, and then even shared memory is out of reach.
    while (member.t.quiesced(member.group, memory.address, memory.length) == 0) ::sched_yield();
    EXPECT_EQ(member.t.quiesced(member.group, data.data(), data.size()), 1);
    board.barrier(3);
  });
}

TEST(Abort, WhileFormingIsBounded) {
  Board board;
  Member member(board, 0, 2);
  roda_error cause{sizeof(roda_error), RODA_ERR_ABORTED, -1, "changed my mind"};
  member.t.group_abort(member.group, &cause);
  EXPECT_EQ(member.form(), RODA_ERR_ABORTED);
}

TEST(Timeout, FormingNamesWhoIsMissing) {
  Board board;
  Member member(board, 0, 2, {}, 50'000'000);
  EXPECT_EQ(member.form(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(member.error().rank, 101);
  EXPECT_NE(message_of(member).find("101"), std::string::npos) << message_of(member);
}

TEST(Timeout, AnOperationWithoutProgressEnds) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, {}, 1'000'000'000);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    member.barrier();
    char byte;
    if (rank == 0) {
      EXPECT_EQ(member.wait(member.start_recv(1, 1, &byte, 1)), RODA_ERR_TIMEOUT);
      EXPECT_EQ(member.error().rank, 101);
    } else {
      EXPECT_EQ(member.wait_for_abort(), RODA_ERR_TIMEOUT);
    }
  });
}

TEST(Leaving, IsNoDeathButAPendingReceiveEnds) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    char byte = 0;
    if (rank == 1) return member.send(0, 1, "x", 1);
    ASSERT_EQ(member.recv(1, 1, &byte, 1), RODA_OK) << member.error().message;
    EXPECT_EQ(byte, 'x');
    roda_request* receiving = member.start_recv(1, 2, &byte, 1);
    int code = RODA_IN_PROGRESS;
    roda_error error{};
    member.sleep_until([&] {
      return code != RODA_IN_PROGRESS ||
             (code = member.t.request_test(member.group, receiving, &error)) != RODA_IN_PROGRESS;
    });
    EXPECT_EQ(code, RODA_ERR_PEER);
    EXPECT_EQ(error.rank, 101);
  });
}

// What this machine still holds of ours: names in /dev/shm and abstract sockets.
std::set<std::string> leftovers() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path());
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (auto at = line.find("@roda-"); at != std::string::npos) names.insert(line.substr(at));
  }
  return names;
}

std::set<std::string> without(const std::set<std::string>& all, const std::set<std::string>& some) {
  std::set<std::string> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::inserter(rest, rest.end()));
  return rest;
}

class Leftovers : public ::testing::TestWithParam<const char*> {};

TEST_P(Leftovers, NoneAfterAllRanksWereKilled) {
  const Knobs knobs{{"RODA_TEST_SHM_FORCE_POSIX", GetParam()}};
  Board board;
  auto before = leftovers();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    pid_t child = ::fork();
    if (child == 0) {
      Member member(board, rank, 2, knobs);
      Member forming(board, rank, 2, knobs);  // its mailbox is still open: the board has only one group's cards
      roda_memory memory{};
      if (member.form() != RODA_OK || member.t.memory_alloc(member.group, 1 << 20, &memory, nullptr) != RODA_OK) {
        ::_exit(1);
      }
      std::memset(memory.address, 1, memory.length);
      board.set(rank, 1);
      for (;;) ::pause();
    }
    children.push_back(child);
  }
  board.wait_for(0);
  board.wait_for(1);
  const auto made = without(leftovers(), before);
  EXPECT_FALSE(made.empty());
  for (pid_t child : children) ::kill(child, SIGKILL);
  for (pid_t child : children) ::waitpid(child, nullptr, 0);
  // Other jobs of this machine may have made some of them, which go with those jobs.
  const auto left = [&] { return without(made, without(made, leftovers())); };
  for (int wait = 0; wait < 1000 && !left().empty(); ++wait) ::usleep(10'000);
  const auto rest = left();
  EXPECT_TRUE(rest.empty()) << *rest.begin();
}

INSTANTIATE_TEST_SUITE_P(MemfdAndPosix, Leftovers, ::testing::Values("0", "1"),
                         [](const auto& info) { return *info.param == '1' ? "posix" : "memfd"; });

// A DataLoader worker: outlives nothing, disturbs nothing, can use nothing.
TEST(Fork, AChildIsRefusedAndHarmless) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    roda_memory memory{};
    ASSERT_EQ(member.t.memory_alloc(member.group, 4096, &memory, nullptr), RODA_OK);
    member.barrier();
    pid_t child = ::fork();
    if (child == 0) {
      unsigned char resident;
      const bool mapped = ::mincore(memory.address, 4096, &resident) == 0;
      roda_group_desc desc{};
      desc.struct_size = sizeof desc;
      desc.size = 1;
      roda_group* group = nullptr;
      roda_error error{};
      const bool refused = member.t.group_create(member.context, &desc, &group, &error) == RODA_ERR_INVALID;
      member.t.group_destroy(member.group);
      member.group = nullptr;
      ::_exit(mapped || !refused);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (std::uint64_t turn = 1; turn <= 10; ++turn) {
      member.signal(1 - rank, 0, turn);
      member.wait_signal(1 - rank, 0, turn, true);
    }
  });
}

TEST(Fork, ADeathIsNoticedWhileAWorkerLives) {
  Board board;
  run_ranks(
      2,
      [&](int rank) {
        Member member(board, rank, 2);
        ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
        member.barrier();
        if (rank == 1) {
          pid_t worker = ::fork();
          if (worker == 0) {
            ::alarm(30);
            for (;;) ::pause();
          }
          board.set(0, static_cast<std::uint64_t>(worker));
          ::raise(SIGKILL);
        }
        EXPECT_EQ(member.wait_for_abort(), RODA_ERR_PEER);
        ::kill(static_cast<pid_t>(board.wait_for(0)), SIGKILL);
      },
      1);
}

// A mount namespace of its own with a /dev/shm as small as containers give.
TEST(Posix, AFullDevShmIsAnErrorNotAFault) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small /dev/shm";
  Board board;
  pid_t parent = ::fork();
  if (parent == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=2m") != 0) {
      ::_exit(77);
    }
    run_ranks(4, [&](int rank) {
      Member member(board, rank, 4, {{"RODA_TEST_SHM_FORCE_POSIX", "1"}, {"RODA_TEST_SHM_RING_BYTES", "262144"}});
      ASSERT_EQ(member.form(), RODA_OK) << member.error().message;  // with smaller rings
      std::vector<unsigned char> data(100'000), got(data.size());
      roda_request* sending = member.start_send((rank + 1) % 4, 1, data.data(), data.size());
      ASSERT_EQ(member.recv((rank + 3) % 4, 1, got.data(), got.size()), RODA_OK) << member.error().message;
      ASSERT_EQ(member.wait(sending), RODA_OK);
      roda_memory memory{};
      roda_error error{};
      EXPECT_EQ(member.t.memory_alloc(member.group, 2 << 20, &memory, &error), RODA_ERR_NO_MEMORY);
      EXPECT_NE(std::string(error.message).find("/dev/shm"), std::string::npos) << error.message;
      member.barrier();
    });
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "this container may not mount";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace roda::shm_test
