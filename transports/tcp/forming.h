// How a group comes together: every member publishes what it is, then where it listens. Connections are made later,
// each by the first message (connector.h).
//
// The exchange is authenticated by the job's secret, so whoever knows a member's key is a member.
//
// One thread at a time. Throws sdk::Failure.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/hmac.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

class Context;

// What every member publishes first.
struct Card {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint32_t lanes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t eager_bytes = 0;
  std::uint64_t window_bytes = 0;
  Digest key{};   // whoever connects proves it
  Digest host{};  // of loopback_identity()
};

class Forming {
 public:
  // `state`: the group's, which outlives this.
  Forming(Context& context, const roda_group_desc& desc, const sdk::GroupState& state);

  // True when everything is known of everybody.
  bool step();
  Card card(int rank) const;
  SocketAddress address(int rank) const;
  // Who has all members' keys has made it. Once the cards are there.
  const std::optional<Digest>& id() const { return id_; }
  // Group ranks that have not come yet.
  std::vector<int> missing() const { return is_listening_ ? addresses_.missing() : cards_.missing(); }

 private:
  struct Published {  // what every member publishes next
    std::uint32_t length = 0;
    std::uint8_t address[28]{};  // the longer one of IPv4's and IPv6's
  };
  void read_cards();
  bool listen();

  Context& context_;
  const std::uint64_t generation_;
  const sdk::GroupState& state_;
  sdk::Allgather cards_;
  sdk::Allgather addresses_;
  std::optional<Digest> id_;
  bool one_host_ = true;
  bool is_listening_ = false;
};

}  // namespace roda::tcp_transport
