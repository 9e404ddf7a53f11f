// One use of the transport by this process: settings, the descriptor to sleep on, and the groups.
//
// Descriptors are watched edge-triggered, so none is ever armed again: what an event said stays noted until a read or
// write finds the descriptor empty or full. While few peers are expected to send, their connections are read without
// asking epoll first, which saves a system call per message.
#pragma once

#include <roda/sdk/error.hpp>
#include <roda/sdk/group_state.hpp>

#include "plugins/base/event_set.h"
#include "plugins/base/local_address.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/lane.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {

class Farewell;
class Group;
struct Peer;

// ring() from any thread, the rest from one at a time. Throws sdk::Failure.
class Context : public sdk::GroupList<Group>, public EventSet {
 public:
  explicit Context(const roda_host* host);
  // Waits, for a second at most, until the peers' kernels have what was sent.
  ~Context();

  // --- the entries of the ABI ---
  int progress();
  // True: sleep; false: there is something to do.
  bool arm();

  const Settings& settings() const { return settings_; }
  void log(int level, const std::string& text) const { sdk::log(host_, level, "tcp", text); }

  // Where to listen, the best first. `known`: GroupState::address().
  std::vector<SocketAddress> addresses(bool one_host, const std::string& known) const {
    const bool is_ours = !settings_.interfaces.empty();
    const std::string& interfaces = is_ours ? settings_.interfaces : settings_.gloo_interfaces;
    if (interfaces.empty()) return one_host ? loopback_addresses() : network_addresses(known);
    std::vector<SocketAddress> named = addresses_of_interfaces(interfaces);
    if (!named.empty()) return named;
    throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                       std::string("tcp: ") + (is_ours ? "RODA_TCP_IFACE" : "HOROVOD_GLOO_IFACE") + "=" + interfaces +
                           " names no usable interface. Interfaces that are up: " + interfaces_up());
  }

  // `what` is told of every change from now on, and at once of what is there.
  void watch(int fd, Watched& what) {
    constexpr auto kEdges = static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT | EPOLLRDHUP) | std::uint32_t{EPOLLET};
    sdk::expect_ok(EventSet::watch(fd, &what, kEdges), "tcp");
  }
  Connector& connector() { return connector_; }
  // The group that has this id; null if there is none.
  Group* find(const Digest& id);
  // Ends all groups; `reason` follows the words "rank N" for this rank.
  void fail_all(const std::string& reason);
  // The most lanes that there can be with all members of all groups.
  std::size_t most_lanes() const;

  // --- of lanes ---
  // There may be something to read; something to write that was not tried yet.
  void mark_readable(Lane& lane) {
    if (!std::exchange(lane.is_readable, true)) readable_.push_back(&lane);
  }
  void mark_dirty(Lane& lane) {
    if (!std::exchange(lane.is_dirty, true)) dirty_.push_back(&lane);
  }
  // One more, or one less, waits for what only epoll can tell: room to write, a connection that is being made.
  void await_events(int change) { waits_ += change; }
  void forget(Lane& lane) {
    for (auto* list : {&readable_, &dirty_}) std::erase(*list, &lane);
    std::replace(turn_.begin(), turn_.end(), &lane, static_cast<Lane*>(nullptr));
  }
  // Something is expected from the peer; nothing any more.
  void expect(Peer& peer) { hot_.push_back(&peer); }
  void cease(Peer& peer) { std::erase(hot_, &peer); }
  // For frames that come in many at once. Used up before the next read.
  std::byte* scratch() { return scratch_.get(); }
  static constexpr std::size_t kScratchBytes = 64 << 10;

  // Ends a connection that this side is done with: writes `rest`, then the end of the stream, and closes it when the
  // peer has, so that nothing sent on it is lost. Never throws for a connection that is broken.
  void see_off(UniqueFd fd, std::vector<std::byte> rest);
  void forget(const Farewell& over);

 private:
  bool harvest();
  bool polls_directly() const;
  // What is listed meanwhile has its turn the next time.
  template <typename Work>
  int each_in_turn(std::vector<Lane*>* list, bool Lane::*is_listed, Work&& work) {
    int handled = 0;
    turn_.swap(*list);
    for (std::size_t i = 0; i < turn_.size(); ++i) {
      if (turn_[i] == nullptr) continue;
      turn_[i]->*is_listed = false;
      handled += work(*turn_[i]);
    }
    turn_.clear();
    return handled;
  }
  int flush_dirty() {
    return each_in_turn(&dirty_, &Lane::is_dirty, [](Lane& lane) { return lane.flush(); });
  }
  int read_hot();
  int read(Lane& lane);
  void set_ticking();

  const roda_host* host_;
  const Settings settings_;
  UniqueFd ticker_;
  ForkGuard ticker_guard_;
  bool is_ticking_ = false;
  std::vector<Lane*> readable_;
  std::vector<Lane*> dirty_;
  std::vector<Lane*> turn_;  // those that a loop is at
  std::vector<Peer*> hot_;
  int waits_ = 0;  // for events
  std::uint32_t turns_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
  std::list<Farewell> farewells_;
  Connector connector_;
};

}  // namespace roda::tcp_transport
