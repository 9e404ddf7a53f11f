// How the members of a group come to be connected, before Gloo has anything to do with it.
//
// A rank listens on one port, dials those of lower rank, and keeps who proves to know the port's key: that travels with
// the port's number through the group's exchange, which members alone can read. Strangers are heard until their time
// for the proof is over, and don't keep members waiting.
//
// Used by one thread.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/hmac.h"
#include "plugins/base/secret.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/socket.h"
#include "plugins/base/unique_fd.h"

namespace roda::gloo {

struct NoConnection : std::runtime_error {
  NoConnection(int peer, const std::string& why) : std::runtime_error(why), peer(peer) {}
  int peer;  // -1: with none of them
};

class Connector {
 public:
  // Listens on the address, whatever its port. `silence`: after which a peer that acknowledges nothing is given up.
  Connector(SocketAddress address, int rank, int size, std::chrono::milliseconds silence)
      : rank_(rank), silence_(silence), connected_(static_cast<std::size_t>(size)) {
    std::array<std::uint8_t, kKeyBytes> key{};
    check(fill_random(key));
    key_ = Secret(key);
    explicit_bzero(key.data(), key.size());
    address.set_port(0);
    check(tcp::listen_on(address, &listener_, &bound_));
    guard_ = ForkGuard(listener_.get());
  }

  // Where the others find this rank, and the key; of one length on all ranks.
  std::vector<char> card() const {
    Card card{bound_, {}};
    std::copy(key_.bytes().begin(), key_.bytes().end(), card.key.begin());
    const char* bytes = reinterpret_cast<const char*>(&card);
    return {bytes, bytes + sizeof card};
  }

  // Connections with all others, by rank. Blocks; throws NoConnection, also soon after `is_over` is set.
  std::vector<UniqueFd> connect(const std::function<const char*(int)>& card_of, const std::atomic<bool>& is_over) {
    for (int peer = 0; peer < rank_; ++peer) {
      dials_.push_back({peer, 0, {}, nullptr});
      start(&dials_.back(), card_of(peer));
    }
    const auto is_lacking = [this](int peer) { return peer != rank_ && is_missing(peer); };
    for (int peer = 0; peer < static_cast<int>(connected_.size());) {
      if (!is_lacking(peer)) {
        ++peer;
        continue;
      }
      if (is_over) throw NoConnection(peer, "the group ended before it was connected");
      sleep();
      let_in();
      hear_proofs();
      hear_ranks();
      for (Dial& dial : dials_) advance(&dial, card_of(dial.peer));
    }
    guard_ = ForkGuard();
    listener_.reset();
    return std::move(connected_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kKeyBytes = 32;
  static constexpr std::size_t kMostStrangers = 256;
  // A connection that strangers pushed out is made again; a peer that is gone is not waited for.
  static constexpr int kMostFailures = 5;
  static constexpr std::chrono::milliseconds kRest{20};
  static constexpr int kLookAgainMs = 10;

  struct Card {
    SocketAddress address;
    std::array<std::uint8_t, kKeyBytes> key;
  };
  struct Dial {
    int peer = 0;
    int failures = 0;
    std::chrono::steady_clock::time_point again{};  // where there is no connection
    std::unique_ptr<SecureConnection> connection;
  };

  static void check(const Status& status, int peer = -1) {
    if (!status.ok()) throw NoConnection(peer, status.message());
  }
  bool is_missing(int peer) const { return !connected_[static_cast<std::size_t>(peer)]; }
  void start(Dial* dial, const char* card_bytes) {
    Card card{};
    std::memcpy(&card, card_bytes, sizeof card);
    card.address.length = std::min<socklen_t>(card.address.length, sizeof card.address.storage);
    const Status status = SecureConnection::connect({card.address}, Secret(card.key), options(), &dial->connection);
    explicit_bzero(card.key.data(), card.key.size());
    if (!status.ok()) fail(dial, status);
  }
  void fail(Dial* dial, const Status& status) {
    if (++dial->failures == kMostFailures) check(status, dial->peer);
    dial->connection.reset();
    dial->again = Clock::now() + kRest;
  }
  void advance(Dial* dial, const char* card) {
    if (!is_missing(dial->peer)) return;
    if (dial->connection == nullptr) {
      if (Clock::now() >= dial->again) start(dial, card);
      return;
    }
    bool ready = false;
    if (const Status status = dial->connection->test(&ready); !status.ok()) return fail(dial, status);
    if (!ready) return;
    UniqueFd fd = dial->connection->release();
    std::array<std::uint8_t, sizeof rank_> rank{};
    std::memcpy(rank.data(), &rank_, sizeof rank_);
    std::size_t count = 0;  // the first bytes on a connection always find room
    Status status = tcp::write_some(fd.get(), rank, &count);
    if (status.ok() && count != rank.size()) status = Status::system("no room for four bytes in a new connection");
    if (!status.ok()) return fail(dial, status);
    connected_[static_cast<std::size_t>(dial->peer)] = std::move(fd);
  }
  // Until something has come, or it is time to look whether all is over.
  void sleep() const {
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    const auto watch = [&watched](const SecureConnection& connection) {
      const int events = POLLIN | (connection.wants_write() ? POLLOUT : 0);
      watched.push_back({connection.fd(), static_cast<short>(events), 0});
    };
    for (const auto& stranger : strangers_) watch(*stranger);
    for (const UniqueFd& member : members_) watched.push_back({member.get(), POLLIN, 0});
    for (const Dial& dial : dials_) {
      if (dial.connection != nullptr && is_missing(dial.peer)) watch(*dial.connection);
    }
    ::poll(watched.data(), watched.size(), kLookAgainMs);
  }
  void let_in() {
    // As many as there may be at once: who comes faster than that is heard the next time.
    for (std::size_t n = 0; n < kMostStrangers; ++n) {
      UniqueFd fd;
      SocketAddress from;
      check(tcp::accept_one(listener_.get(), &fd, &from));
      if (!fd) return;
      std::unique_ptr<SecureConnection> stranger;
      if (!SecureConnection::accept(std::move(fd), from, key_, options(), &stranger).ok()) continue;
      if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
      strangers_.push_back(std::move(stranger));
    }
  }
  void hear_proofs() {
    std::erase_if(strangers_, [this](std::unique_ptr<SecureConnection>& stranger) {
      bool ready = false;
      if (!stranger->test(&ready).ok()) return true;
      if (ready) members_.push_back(stranger->release());
      return ready;
    });
  }
  void hear_ranks() {
    std::erase_if(members_, [this](UniqueFd& member) {
      std::array<std::uint8_t, sizeof rank_> bytes{};
      std::size_t count = 0;
      bool end = false;
      if (!tcp::read_some(member.get(), bytes, &count, &end).ok() || end) return true;
      if (count == 0) return false;
      int rank = 0;
      std::memcpy(&rank, bytes.data(), sizeof rank);
      // A second connection of a rank is the one that it goes on with: it gave up the first.
      if (count == bytes.size() && rank > rank_ && rank < static_cast<int>(connected_.size())) {
        connected_[static_cast<std::size_t>(rank)] = std::move(member);
      }
      return true;
    });
  }
  ConnectionOptions options() const {
    ConnectionOptions options;
    options.silence = silence_;
    return options;
  }

  const int rank_;
  const std::chrono::milliseconds silence_;
  Secret key_;
  SocketAddress bound_;
  UniqueFd listener_;
  ForkGuard guard_;
  std::vector<UniqueFd> connected_;
  std::vector<Dial> dials_;
  std::vector<std::unique_ptr<SecureConnection>> strangers_;  // who has not proved anything, the oldest first
  std::vector<UniqueFd> members_;                             // who has, and is about to say its rank
};

}  // namespace roda::gloo
