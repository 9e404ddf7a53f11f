#include "core/bootstrap/store_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <random>
#include <thread>
#include <vector>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/log.h"
#include "plugins/base/secure_connection.h"

namespace roda {
namespace {

using Buffer = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{20'000};

Secret make_secret(std::uint8_t fill) { return Secret(Buffer(32, fill)); }
Store::Clock::time_point soon() { return Store::Clock::now() + kPatience; }

class StoreServerTest : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }

  void start(const StoreServerOptions& options) {
    std::vector<SocketAddress> addresses;
    ASSERT_TRUE(resolve("127.0.0.1", 0, &addresses).ok());
    Status status = StoreServer::start(addresses.front(), make_secret(1), options, &server_);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::unique_ptr<Store> connect(std::uint8_t secret = 1) {
    std::unique_ptr<Store> store;
    last_ = connect_store("127.0.0.1", server_->address().port(), make_secret(secret), kPatience, &store);
    return store;
  }
  UniqueFd connect_raw() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), server_->address().get(), server_->address().length), 0);
    return fd;
  }
  // An authenticated connection without the store's client on top.
  std::unique_ptr<SecureConnection> connect_insider() {
    ConnectionOptions options;
    options.service = store_wire::kService;
    std::unique_ptr<SecureConnection> connection;
    EXPECT_TRUE(SecureConnection::connect({server_->address()}, make_secret(1), options, &connection).ok());
    bool ready = false;
    while (!ready) {
      Status status = connection->test(&ready);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) break;
    }
    return connection;
  }
  void expect_alive() {
    auto store = connect();
    ASSERT_NE(store, nullptr) << last_.message();
    std::string value;
    ASSERT_TRUE(store->put("alive", "yes").ok());
    ASSERT_TRUE(store->wait("alive", soon(), &value).ok());
    EXPECT_EQ(value, "yes");
  }
  // The server has closed its end.
  static void expect_closed(int fd) {
    pollfd entry{fd, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, static_cast<int>(kPatience.count())), 1) << "the server has not closed";
    char bytes[256];
    ssize_t got = 1;
    while (got > 0) got = ::recv(fd, bytes, sizeof bytes, 0);
    EXPECT_TRUE(got == 0 || errno == ECONNRESET);
  }

  std::unique_ptr<StoreServer> server_;
  Status last_;
};

TEST_F(StoreServerTest, ValuesTravelBetweenClients) {
  auto a = connect(), b = connect();
  ASSERT_TRUE(a && b);
  std::string value;
  bool found = true;
  ASSERT_TRUE(b->get("key", &value, &found).ok());
  EXPECT_FALSE(found);
  std::string big(Store::kMaxValue, 'x');
  ASSERT_TRUE(a->put("key", big).ok());
  ASSERT_TRUE(b->wait("key", soon(), &value).ok());
  EXPECT_EQ(value, big);
  ASSERT_TRUE(b->wait("key", soon(), &value).ok());  // again: asks anew
  EXPECT_EQ(value, big);
}

TEST_F(StoreServerTest, TheFirstOfTwoKeepsAKey) {
  auto a = connect(), b = connect();
  ASSERT_TRUE(a && b);
  std::string value;
  ASSERT_TRUE(a->put_if_absent("key", "a").ok());
  ASSERT_TRUE(a->wait("key", soon(), &value).ok());
  EXPECT_EQ(value, "a");
  ASSERT_TRUE(b->put_if_absent("key", "b").ok());
  ASSERT_TRUE(b->wait("key", soon(), &value).ok());
  EXPECT_EQ(value, "a");
}

TEST_F(StoreServerTest, ANonBlockingGetEndsOnceTheKeyIsThere) {
  auto a = connect(), b = connect();
  ASSERT_TRUE(a && b);
  std::string value;
  bool found = false;
  ASSERT_TRUE(b->get("k", &value, &found).ok());
  EXPECT_FALSE(found);
  ASSERT_TRUE(a->put("k", "v").ok());
  while (!found) ASSERT_TRUE(b->get("k", &value, &found).ok());
  EXPECT_EQ(value, "v");
}

// More than one answer takes, over as many connections as there are ranks.
TEST_F(StoreServerTest, EveryRankTakesWhatAllGave) {
  constexpr int kRanks = 5;
  std::vector<std::unique_ptr<Store>> stores;
  for (int rank = 0; rank < kRanks; ++rank) stores.push_back(connect());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Store& store = *stores[static_cast<std::size_t>(rank)];
      const auto value_of = [](int r) {
        return std::string(static_cast<std::size_t>(r) * 15'000, static_cast<char>('a' + r));
      };
      ASSERT_TRUE(store.give("all", rank, value_of(rank)).ok());
      std::vector<std::string> values;
      bool found = false;
      if (rank % 2 == 0) {
        ASSERT_TRUE(store.wait_all("all", kRanks, soon(), &values).ok());
      } else {
        while (!found) ASSERT_TRUE(store.take_all("all", kRanks, &values, &found).ok());
      }
      ASSERT_EQ(values.size(), std::size_t{kRanks});
      for (int r = 0; r < kRanks; ++r) EXPECT_EQ(values[static_cast<std::size_t>(r)], value_of(r)) << r;
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(StoreServerTest, WhoHasGivenNothingIsFound) {
  auto store = connect(), other = connect();
  ASSERT_TRUE(store->give("g", 0, "zero").ok());
  std::vector<std::string> values;
  EXPECT_EQ(store->wait_all("g", 2, Store::Clock::now() + milliseconds(20), &values).code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(store->first_missing("g", 2), 1);
  std::string value;
  bool found = false;
  while (!found) ASSERT_TRUE(other->take("g", 0, &value, &found).ok());
  EXPECT_EQ(value, "zero");
}

// So that a job's start takes as many requests as it has ranks, times a number that doesn't grow.
TEST_F(StoreServerTest, ARoundOfAllRanksCostsTwoRequestsEach) {
  constexpr int kRanks = 64;
  std::vector<std::unique_ptr<Store>> stores;
  for (int rank = 0; rank < kRanks; ++rank) stores.push_back(connect());
  const std::uint64_t before = server_->traffic().requests;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Status status =
          check_agreement(*stores[static_cast<std::size_t>(rank)], rank, kRanks, "round", "A=1\nB=2\n", soon());
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(server_->traffic().requests - before, 2u * kRanks + 1);  // and rank 0 puts the result
}

TEST_F(StoreServerTest, ManyThreadsShareOneClient) {
  auto store = connect(), other = connect();
  ASSERT_TRUE(store && other);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      std::string value;
      ASSERT_TRUE(store->wait("for/" + std::to_string(i), soon(), &value).ok());
      EXPECT_EQ(value, std::to_string(i));
      ASSERT_TRUE(store->put("from/" + std::to_string(i), value).ok());
    });
  }
  std::string value;
  for (int i = 7; i >= 0; --i) ASSERT_TRUE(other->put("for/" + std::to_string(i), std::to_string(i)).ok());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(other->wait("from/" + std::to_string(i), soon(), &value).ok());
  for (auto& thread : threads) thread.join();
}

TEST_F(StoreServerTest, ManyClientsMeet) {
  constexpr int kClients = 32;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      std::unique_ptr<Store> store;
      Status status = connect_store("127.0.0.1", server_->address().port(), make_secret(1), kPatience, &store);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(store->put("rank/" + std::to_string(i), std::to_string(i)).ok());
      for (int j = 0; j < kClients; ++j) {
        std::string value;
        ASSERT_TRUE(store->wait("rank/" + std::to_string(j), soon(), &value).ok());
        ASSERT_EQ(value, std::to_string(j));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// A rank whose connection ends before it has left its scope: everybody who waits there hears of it at once, now and
// later, and nobody else does.
TEST_F(StoreServerTest, ARankThatEndsBeforeItLeavesIsNamed) {
  auto waiter = connect(), victim = connect(), stranger = connect();
  ASSERT_TRUE(victim->enter("job/1", 3).ok());
  ASSERT_TRUE(waiter->enter("job/1", 0).ok());
  ASSERT_TRUE(victim->put("job/1/given", "value").ok());
  Status heard, elsewhere;
  std::thread waiting([&] {
    std::string value;
    heard = waiter->wait("job/1/missing", soon(), &value);
  });
  std::string value;
  ASSERT_TRUE(stranger->wait("job/1/given", soon(), &value).ok());
  victim.reset();
  waiting.join();
  EXPECT_EQ(heard.code(), RODA_ERR_PEER);
  EXPECT_EQ(heard.rank(), 3);
  EXPECT_EQ(heard.message().find("Rank 3 died while the job was starting"), 0u) << heard.message();
  EXPECT_EQ(stranger->wait("job/1/later", soon(), &value).rank(), 3);
  std::vector<std::string> values;
  EXPECT_EQ(stranger->wait_all("job/1/gathering", 2, soon(), &values).rank(), 3);
  EXPECT_TRUE(stranger->wait("job/1/given", soon(), &value).ok());
  EXPECT_EQ(stranger->wait("job/10/x", Store::Clock::now() + milliseconds(20), &value).code(), RODA_ERR_TIMEOUT);
  for (Status status; (status = look_for_failures(*stranger, "job/1/control")).rank() != 3;) {
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST_F(StoreServerTest, WhoHasLeftMayEndAndWhoFailsSaysWhy) {
  auto waiter = connect(), done = connect(), failing = connect();
  std::string value;
  ASSERT_TRUE(done->enter("job/1", 1).ok());
  ASSERT_TRUE(failing->enter("job/1", 2).ok());
  ASSERT_TRUE(done->leave("job/1", Status()).ok());
  done.reset();
  ASSERT_TRUE(failing->put("job/1/there", "yes").ok());
  ASSERT_TRUE(waiter->wait("job/1/there", soon(), &value).ok());
  ASSERT_TRUE(look_for_failures(*waiter, "job/1").ok());
  ASSERT_TRUE(failing->leave("job/1", Status(RODA_ERR_SYSTEM, "Rank 2: no space left", 2)).ok());
  const Status heard = waiter->wait("job/1/missing", soon(), &value);
  EXPECT_EQ(heard.code(), RODA_ERR_SYSTEM);
  EXPECT_EQ(heard.rank(), 2);
  EXPECT_EQ(heard.message(), "Rank 2: no space left");
}

TEST_F(StoreServerTest, WhoComesToAScopeThatIsOverIsToldWhy) {
  auto early = connect(), late = connect();
  ASSERT_TRUE(early->enter("job/1", 0).ok());
  ASSERT_TRUE(early->put("job/1/there", "value").ok());
  ASSERT_TRUE(early->put("job/10/there", "another").ok());
  ASSERT_TRUE(early->give("job/1/all", 0, "mine").ok());
  std::thread waiter([&] {
    std::string value;
    const Status told = early->wait("job/1/never", soon(), &value);
    EXPECT_EQ(told.code(), RODA_ERR_ABORTED);
    EXPECT_EQ(told.message(), "generation 1 is over");
  });
  std::string value;
  bool found = false;
  while (!found) ASSERT_TRUE(late->get("job/1/there", &value, &found).ok());
  server_->retire("job/1", Status::aborted("generation 1 is over"));
  waiter.join();
  EXPECT_EQ(late->wait("job/1/there", soon(), &value).message(), "generation 1 is over");
  ASSERT_TRUE(late->put("job/1/there", "too late").ok());
  ASSERT_TRUE(late->give("job/1/all", 1, "too late").ok());
  std::vector<std::string> all;
  EXPECT_EQ(late->wait_all("job/1/all", 2, soon(), &all).message(), "generation 1 is over");
  EXPECT_EQ(late->first_missing("job/1/all", 2), -1);
  ASSERT_TRUE(late->wait("job/10/there", soon(), &value).ok());
  EXPECT_EQ(value, "another");
}

TEST_F(StoreServerTest, AWrongSecretIsRefusedByName) {
  EXPECT_EQ(connect(2), nullptr);
  EXPECT_EQ(last_.code(), RODA_ERR_AUTH);
  EXPECT_NE(last_.message().find("cannot reach the rendezvous at 127.0.0.1:"), std::string::npos);
  EXPECT_NE(last_.message().find("the two sides have different secrets"), std::string::npos);
  expect_alive();
}

TEST_F(StoreServerTest, GarbageDisturbsNobody) {
  auto store = connect();
  ASSERT_TRUE(store);
  std::mt19937 random(11);
  std::vector<UniqueFd> open;
  for (int round = 0; round < 200; ++round) {
    UniqueFd attacker = connect_raw();
    Buffer bytes(1 + random() % 2000);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (round % 3 == 0) std::copy_n("roda\1\0\1\0", std::min<std::size_t>(8, bytes.size()), bytes.begin());
    if (round % 3 == 1) std::copy_n("GET / HTTP/1.1\r\n", std::min<std::size_t>(16, bytes.size()), bytes.begin());
    // The server may have hung up on the first bytes already.
    static_cast<void>(::send(attacker.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (round % 2 == 0) open.push_back(std::move(attacker));
    std::string value;
    ASSERT_TRUE(store->put("round", std::to_string(round)).ok());
    ASSERT_TRUE(store->wait("round", soon(), &value).ok());
    EXPECT_EQ(value, std::to_string(round));
  }
  expect_alive();
}

TEST_F(StoreServerTest, SilentStrangersAreDroppedAtTheDeadline) {
  StoreServerOptions options;
  options.handshake_timeout = milliseconds(1);
  start(options);
  UniqueFd silent = connect_raw();
  expect_closed(silent.get());
}

TEST_F(StoreServerTest, TheOldestStrangerGivesWayToAFlood) {
  StoreServerOptions options;
  options.max_strangers = 4;
  options.handshake_timeout = std::chrono::hours(1);
  start(options);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 6; ++i) strangers.push_back(connect_raw());
  expect_closed(strangers[0].get());
  expect_closed(strangers[1].get());
  expect_alive();
}

TEST_F(StoreServerTest, RunningOutOfDescriptorsIsSurvived) {
  auto insider = connect();
  ASSERT_TRUE(insider);
  UniqueFd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{}, none{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 1;  // poll needs as many as it watches
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::connect(waiting.get(), server_->address().get(), server_->address().length), 0);
  std::string value;
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(insider->put("round", std::to_string(i)).ok());
    EXPECT_TRUE(insider->wait("round", soon(), &value).ok());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  expect_alive();
}

TEST_F(StoreServerTest, AMalformedRequestFromTheInsideEndsOnlyThatConnection) {
  auto insider = connect_insider();
  bool accepted = false;
  ASSERT_TRUE(insider->send_frame(Buffer{99, 1, 2, 3, 4, 5, 6, 7}, &accepted).ok());
  expect_closed(insider->fd());
  insider = connect_insider();
  const std::uint8_t oversize[] = {0, 0, 0, 0x7f};
  ASSERT_EQ(::send(insider->fd(), oversize, sizeof oversize, MSG_NOSIGNAL), 4);
  expect_closed(insider->fd());
  expect_alive();
}

TEST_F(StoreServerTest, RandomFramesFromTheInsideNeverHurtOthers) {
  std::mt19937 random(13);
  for (int round = 0; round < 100; ++round) {
    auto insider = connect_insider();
    Status status;
    for (int i = 0; i < 20 && status.ok(); ++i) {
      Buffer frame(random() % 30);
      for (auto& byte : frame) byte = static_cast<std::uint8_t>(random() % 5);
      bool accepted = false;
      status = insider->send_frame(frame, &accepted);
    }
  }
  expect_alive();
}

TEST_F(StoreServerTest, AFullStoreIsAnErrorThatSaysSo) {
  StoreServerOptions options;
  options.max_bytes = 100'000;
  start(options);
  auto store = connect();
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->put("a", std::string(Store::kMaxValue, 'x')).ok());
  ASSERT_TRUE(store->put("b", std::string(Store::kMaxValue, 'x')).ok());  // refused, said later
  std::string value;
  Status status = store->wait("never", soon(), &value);
  EXPECT_EQ(status.code(), RODA_ERR_NO_MEMORY);
  EXPECT_NE(status.message().find("the store is full"), std::string::npos);
}

TEST_F(StoreServerTest, LosingTheServerIsAnErrorThatNamesItAndStays) {
  auto store = connect();
  ASSERT_TRUE(store);
  std::string address = server_->address().text();
  std::string value;
  bool found = false;
  ASSERT_TRUE(store->get("k", &value, &found).ok());
  server_->stop();
  server_->stop();
  Status status = store->wait("k", soon(), &value);
  EXPECT_EQ(status.code(), RODA_ERR_PEER);
  EXPECT_EQ(status.message(), "lost the rendezvous: connection with " + address + ": the connection was closed");
  EXPECT_EQ(store->put("k", "v").message(), status.message());
  EXPECT_EQ(store->get("k", &value, &found).message(), status.message());
}

TEST_F(StoreServerTest, AShortSecretStartsNoServer) {
  std::unique_ptr<StoreServer> server;
  EXPECT_EQ(StoreServer::start(server_->address(), Secret(Buffer(8, 1)), {}, &server).code(), RODA_ERR_INVALID);
}

class Quiet : public ::testing::Environment {
  void SetUp() override { logging::verbosity().level = logging::Level::error; }
};
const auto* const kQuiet = ::testing::AddGlobalTestEnvironment(new Quiet);

}  // namespace
}  // namespace roda
