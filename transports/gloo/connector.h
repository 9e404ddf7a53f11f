// How the members of a group come to be connected, before Gloo has anything to do with it.
//
// A rank listens on one port, dials those of lower rank, and keeps who proves to know the port's key: that travels with
// the port's number through the group's exchange, which members alone can read. Strangers are heard until their time
// for the proof is over, and don't keep members waiting.
//
// Used by one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/secret.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/unique_fd.h"

namespace roda::gloo {

struct NoConnection : std::runtime_error {
  NoConnection(int peer, const std::string& why) : std::runtime_error(why), peer(peer) {}
  int peer;  // -1: with none of them
};

class Connector {
 public:
  // Listens on the address, whatever its port. `silence`: after which a peer that acknowledges nothing is given up.
  Connector(SocketAddress address, int rank, int size, std::chrono::milliseconds silence);

  // Where the others find this rank, and the key; of one length on all ranks.
  std::vector<char> card() const;

  // Connections with all others, by rank. Blocks; throws NoConnection, also soon after `is_over` is set.
  std::vector<UniqueFd> connect(const std::function<const char*(int)>& card_of, const std::atomic<bool>& is_over);

 private:
  struct Dial {
    int peer = 0;
    int failures = 0;
    std::chrono::steady_clock::time_point again{};  // where there is no connection
    std::unique_ptr<SecureConnection> connection;
  };

  bool is_missing(int peer) const { return !connected_[static_cast<std::size_t>(peer)]; }
  void start(Dial* dial, const char* card);
  void fail(Dial* dial, const Status& status);
  void advance(Dial* dial, const char* card);
  void sleep() const;
  void let_in();
  void hear_proofs();
  void hear_ranks();
  ConnectionOptions options() const;

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
