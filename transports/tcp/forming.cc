#include "transports/tcp/forming.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "plugins/base/local_address.h"
#include "transports/tcp/context.h"

namespace roda::tcp_transport {

namespace {

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

}  // namespace

Forming::Forming(Context& context, const roda_group_desc& desc, const sdk::GroupState& state)
    : context_(context),
      generation_(desc.generation),
      state_(state),
      cards_(desc.exchange, desc.rank, desc.size, "tcp.card"),
      addresses_(desc.exchange, desc.rank, desc.size, "tcp.address") {
  Card own;
  own.lanes = static_cast<std::uint32_t>(context.settings().lanes);
  own.eager_bytes = context.settings().eager_bytes;
  own.window_bytes = context.settings().window_bytes;
  own.key = context.connector().key();
  Context::expect_ok(hmac_sha256(bytes_of("roda host"), {bytes_of(loopback_identity())}, &own.host));
  cards_.start(&own, sizeof own);
}

Card Forming::card(int rank) const {
  Card card;
  std::memcpy(&card, cards_.value(rank), sizeof card);
  return card;
}

SocketAddress Forming::address(int rank) const {
  Published published;
  std::memcpy(&published, addresses_.value(rank), sizeof published);
  SocketAddress address;
  address.length = std::min<std::uint32_t>(published.length, sizeof published.address);
  std::memcpy(&address.storage, published.address, address.length);
  return address;
}

bool Forming::step() {
  if (!id_.has_value()) {
    if (!cards_.test()) return false;
    read_cards();
  }
  return (is_listening_ || listen()) && addresses_.test();
}

void Forming::read_cards() {
  const Digest host = card(state_.rank()).host;
  std::vector<std::uint8_t> keys;
  for (int rank = 0; rank < state_.size(); ++rank) {
    const Card theirs = card(rank);
    if (theirs.magic != kMagic || theirs.version != kWireVersion || theirs.lanes == 0 || theirs.lanes > kMostLanes) {
      throw sdk::Failure(RODA_ERR_PRECONDITION,
                         "tcp: " + state_.describe(rank) + " runs another version of this plugin",
                         state_.world_rank(rank));
    }
    one_host_ = one_host_ && theirs.host == host;
    keys.insert(keys.end(), theirs.key.begin(), theirs.key.end());
  }
  Digest id;
  const std::string purpose = "roda tcp " + std::to_string(generation_) + " " + state_.name();
  Context::expect_ok(hmac_sha256(keys, {bytes_of(purpose)}, &id));
  explicit_bzero(keys.data(), keys.size());
  id_ = id;
}

bool Forming::listen() {
  const std::optional<SocketAddress> own = context_.connector().listen(one_host_);
  if (!own.has_value()) return false;
  Published published;
  static_assert(sizeof published.address >= sizeof(sockaddr_in6));
  published.length = own->length;
  std::memcpy(published.address, &own->storage, std::min<std::size_t>(own->length, sizeof published.address));
  addresses_.start(&published, sizeof published);
  return is_listening_ = true;
}

}  // namespace roda::tcp_transport
