// What forming a group of many ranks costs the rendezvous, and how many connections a barrier over a tree makes. One
// thread plays all ranks, over a store of its own for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <vector>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store_server.h"
#include "tests/transports/tcp/talk.h"
#include "tests/transports/thread_ranks.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

constexpr int kRanks = 64;
constexpr std::uint64_t kUp = 1, kDown = 2;

struct Rank {
  std::unique_ptr<Store> store;
  std::unique_ptr<StoreExchange> exchange;
  std::unique_ptr<Member> member;
};

class TcpManyRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    const Secret secret(std::vector<std::uint8_t>(32, 1));
    std::vector<SocketAddress> addresses;
    ASSERT_TRUE(resolve("127.0.0.1", 0, &addresses).ok());
    ASSERT_TRUE(StoreServer::start(addresses.front(), secret, {}, &server_).ok());
    for (int i = 0; i < kRanks; ++i) {
      Rank& rank = ranks_.emplace_back();
      const Status status =
          connect_store("127.0.0.1", server_->address().port(), secret, std::chrono::seconds(60), &rank.store);
      ASSERT_TRUE(status.ok()) << status.message();
      rank.exchange = std::make_unique<StoreExchange>(*rank.store, "group", i, kRanks);
    }
  }

  // Until `is_done(rank)` holds for all, with progress of all in between.
  template <typename IsDone>
  void drive(IsDone&& is_done) {
    std::size_t left = 1;
    while (left > 0) {
      left = 0;
      for (Rank& rank : ranks_) {
        rank.member->progress();
        if (!is_done(rank)) ++left;
      }
    }
  }

  // Until `call` has begun something.
  template <typename Call>
  void begin(Call&& call) {
    int code = RODA_AGAIN;
    while ((code = call()) == RODA_AGAIN) std::this_thread::yield();
    ASSERT_EQ(code, RODA_OK);
  }

  // Every rank but the first sends to its parent, or the other way.
  void pass(std::uint64_t direction) {
    std::vector<char> in(ranks_.size());
    std::list<std::pair<Member*, roda_request*>> pending;
    for (int child = 1; child < kRanks; ++child) {
      const int parent = (child - 1) / 2;
      const int from = direction == kUp ? child : parent, to = direction == kUp ? parent : child;
      Member &sender = *ranks_[static_cast<std::size_t>(from)].member,
             &receiver = *ranks_[static_cast<std::size_t>(to)].member;
      roda_request *sent = nullptr, *received = nullptr;
      begin([&] { return receiver.receive(from, direction, &in[static_cast<std::size_t>(child)], 1, &received); });
      begin([&] { return sender.send(to, direction, "x", 1, &sent); });
      if (received != nullptr) pending.emplace_back(&receiver, received);
      if (sent != nullptr) pending.emplace_back(&sender, sent);
    }
    while (!pending.empty()) {
      for (Rank& rank : ranks_) rank.member->progress();
      pending.remove_if([](const auto& each) {
        const int code = each.first->test(each.second);
        EXPECT_TRUE(code == RODA_OK || code == RODA_IN_PROGRESS) << each.first->text();
        return code != RODA_IN_PROGRESS;
      });
    }
    EXPECT_EQ(std::count(in.begin(), in.end(), 'x'), kRanks - 1);
  }

  void form() {
    for (int i = 0; i < kRanks; ++i) {
      Rank& rank = ranks_[static_cast<std::size_t>(i)];
      const roda_exchange exchange = rank.exchange->table();
      rank.member = std::make_unique<Member>(roda_tcp_transport(), unused_, i, kRanks, Knobs(), 0, &exchange);
      ASSERT_EQ(rank.member->code(), RODA_OK) << rank.member->text();
    }
    drive([](Rank& rank) {
      EXPECT_GE(rank.member->test(), RODA_OK) << rank.member->text();
      return rank.member->code() != RODA_IN_PROGRESS;
    });
  }

  std::unique_ptr<StoreServer> server_;
  std::vector<Rank> ranks_;
  Board unused_;
};

// Each rank puts what it is, hears from the first one, which alone takes what all are, and puts where it is; then all
// wait for all. Forming connects nobody, and who connects asks for one peer.
TEST_F(TcpManyRanks, FormingAndABarrierTakeWhatTheyNeed) {
  const std::uint64_t asked_before = server_->traffic().requests, bytes_before = server_->traffic().bytes;
  const int stores = connections(false);
  form();
  EXPECT_EQ(server_->traffic().requests - asked_before, 5u * kRanks + 1);
  EXPECT_EQ(connections(false), stores);

  pass(kUp);
  pass(kDown);
  // One for each child, with two ends in this process. Where both ends connected, the other one is on its way out.
  while (connections(false) > stores + 2 * (kRanks - 1)) drive([](Rank&) { return true; });
  EXPECT_EQ(connections(false), stores + 2 * (kRanks - 1));
  EXPECT_LE(server_->traffic().requests - asked_before, 5u * kRanks + 1 + 2 * (kRanks - 1));
  EXPECT_LT(server_->traffic().bytes - bytes_before, 1000u * kRanks);  // not each rank's of all others
  // When all have left, the store forgets where they were: process sets come and go.
  Store& store = *ranks_.front().store;
  EXPECT_EQ(store.first_missing("group/tcp.address", kRanks), -1);
  for (Rank& rank : ranks_) {
    rank.member->leave();
    rank.exchange.reset();
  }
  for (const char* key : {"group/tcp.card", "group/tcp.verdict", "group/tcp.address", "group/tcp.up"}) {
    while (store.first_missing(key, kRanks) != 0) std::this_thread::yield();
  }
}

// The question for a peer's address is the last that needs the store: who asks in vain says what it lacks, and whose.
TEST_F(TcpManyRanks, AStoreThatIsGoneIsNamed) {
  form();
  server_.reset();
  roda_request* sent = nullptr;
  int code = RODA_AGAIN;
  Member& member = *ranks_.front().member;
  while ((code = member.send(2, 1, "x", 1, &sent)) == RODA_AGAIN) std::this_thread::yield();
  EXPECT_LT(code, 0);
  EXPECT_TRUE(contains(member.text(), "can't learn where rank 102 (group test) is: lost the rendezvous"))
      << member.text();
  EXPECT_EQ(member.test(), code) << "the group is broken";
}

}  // namespace
}  // namespace roda::transport_test
