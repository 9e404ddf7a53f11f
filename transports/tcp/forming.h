// How a group comes together: every member publishes a key and an address through the exchange, then each connects to
// the members before it.
//
// The exchange is authenticated by the job's secret, so whoever knows every member's key is a member. The group's
// secret is made of all of them; each connection proves it before anything else on it is believed.
//
// One thread at a time. Throws sdk::Failure.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/secret.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/unique_fd.h"
#include "transports/tcp/watched.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

class Attempt;
class Context;

// What every member publishes first.
struct Card {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint32_t lanes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t eager_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::array<std::uint8_t, 32> key{};
  std::array<char, 128> host{};  // loopback_identity()
};

class Forming final : public Watched {
 public:
  // `state`: the group's, which outlives this.
  Forming(Context& context, const roda_group_desc& desc, const sdk::GroupState& state);
  ~Forming();

  // Over the exchange and the connections. True when every connection is there.
  bool step();
  // The connections alone. Returns the number of things done.
  int progress();
  bool has_news() const { return has_news_; }

  Card card(int rank) const;
  // Connections with that member; the same number at both ends.
  std::uint32_t lanes_with(int rank) const;
  // Of a finished one: the connection, and the address at its other end.
  UniqueFd take(int rank, std::uint32_t lane, std::string* address);
  // Group ranks that have not come yet.
  std::vector<int> missing() const;

  // The listener's.
  void on_event(std::uint32_t) override { has_news_ = is_knocked_ = true; }
  // One of the connections has news.
  void note_news() { has_news_ = true; }
  Context& context() { return context_; }

 private:
  enum class Phase : std::uint8_t { kCards, kListen, kAddresses, kConnect, kDone };
  struct Published {  // what every member publishes next
    std::uint32_t length = 0;
    sockaddr_storage storage{};
  };
  struct Link {
    UniqueFd fd;
    ForkGuard guard;
    std::string address;
  };
  void read_cards();
  void make_secret();
  bool listen();
  void dial_all();
  void accept_all();
  int step_attempts();
  bool step_attempt(Attempt& attempt);
  bool step_hello(Attempt& attempt);
  void keep(Attempt& attempt, int rank, std::uint32_t lane);
  void choose_congestion(int fd) const;
  void finish();
  ConnectionOptions options() const;
  sdk::Failure unreachable(int rank, const Status& why) const;

  Context& context_;
  const roda_group_desc desc_;
  const sdk::GroupState& state_;
  Phase phase_ = Phase::kCards;
  Card own_;
  sdk::Allgather cards_;
  sdk::Allgather addresses_;
  Secret secret_;
  bool one_host_ = true;
  UniqueFd listener_;
  ForkGuard listener_guard_;
  bool is_knocked_ = false;
  bool has_news_ = false;
  std::list<Attempt> attempts_;
  std::vector<std::vector<Link>> links_;  // by rank and lane
  std::size_t links_missing_ = 0;
};

}  // namespace roda::tcp_transport
