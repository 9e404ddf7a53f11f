// Connections of this process's groups, each made by the first message between two ranks.
//
// Either end connects when it has something to send or to receive. Where both do so at once, the lower rank's
// connection counts: it leaves the other one unanswered, and the higher rank gives its own up when it is connected to.
//
// The process listens once for each network, as long as the context lives. Whoever connects proves the key of the
// process that it connects to, before anything else on the connection is believed: only members of a group know it.
//
// One thread at a time. Throws sdk::Failure.
#pragma once

#include <list>
#include <memory>

#include "plugins/base/address.h"
#include "plugins/base/secure_connection.h"
#include "transports/tcp/lane.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {

class Group;
class Attempt;
class Context;
struct Peer;

class Connector final : public Watched {
 public:
  explicit Connector(Context& context);
  ~Connector();

  const Digest& key() const { return key_; }
  // Where the members of a group find this process. `known`: GroupState::address().
  SocketAddress listen(bool one_host, const std::string& known);

  // The peer's lanes are to be connected, by its process's key.
  void connect(Group& group, Peer& peer, const Secret& key);
  // A group has all that it needs to take connections; a group ends.
  void reconsider();
  void forget(Group& group);

  // Returns the number of things done.
  int progress();
  bool has_news() const { return has_news_; }

  // An event of a listener, or of an attempt.
  void on_event(std::uint32_t) override { has_news_ = is_knocked_ = true; }
  void note_news() { has_news_ = true; }
  Context& context() { return context_; }

 private:
  struct Listener {
    UniqueFd fd;
    ForkGuard guard;
    SocketAddress address;
  };
  void accept_all(Listener& listener);
  // This process can't connect, whoever the peer is: ends all groups.
  void give_up(const Status& why);
  bool step(Attempt& attempt);
  bool take(Attempt& attempt);
  void keep(Attempt& attempt, Peer& peer);

  Context& context_;
  Digest key_;
  Listener listeners_[2];  // [one_host]
  bool is_knocked_ = false;
  bool has_news_ = false;
  std::list<Attempt> attempts_;
  std::size_t refused_ = 0;
};

}  // namespace roda::tcp_transport
