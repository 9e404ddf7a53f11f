// One use of the transport by this process: settings, the descriptor to sleep on, and the groups.
//
// Descriptors are watched edge-triggered, so none is ever armed again: what an event said stays noted until a read or
// write finds the descriptor empty or full. While few peers are expected to send, their connections are read without
// asking epoll first, which saves a system call per message.
#pragma once

#include <roda/sdk/error.hpp>

#include "plugins/base/event_set.h"
#include "plugins/base/local_address.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/lane.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {

class Farewell;
class Group;
class Lane;
struct Peer;

// ring() from any thread, the rest from one at a time. Throws sdk::Failure.
class Context {
 public:
  explicit Context(const roda_host* host);
  // Waits, for a second at most, until the peers' kernels have what was sent.
  ~Context();

  // --- the entries of the ABI ---
  int progress();
  int event_fd() const { return events_.fd(); }
  // True: sleep; false: there is something to do.
  bool arm();

  const Settings& settings() const { return settings_; }
  void log(int level, const std::string& text) const { sdk::log(host_, level, "tcp", text); }

  void add(Group& group) { groups_.push_back(&group); }
  void remove(Group& group) { std::erase(groups_, &group); }
  // Wakes the sleeper.
  void ring() { events_.ring(); }

  // Where to listen, the best first. `known`: GroupState::address().
  std::vector<SocketAddress> addresses(bool one_host, const std::string& known) const;

  // `what` is told of every change from now on, and at once of what is there.
  void watch(int fd, Watched& what);
  Connector& connector() { return connector_; }
  // The group that has this id; null if there is none.
  Group* find(const Digest& id);
  // Ends all groups; `reason` follows the words "rank N" for this rank.
  void fail_all(const std::string& reason);
  // That there can be with all members of all groups.
  std::size_t most_lanes() const;
  void unwatch(int fd) { events_.unwatch(fd); }

  // --- of lanes ---
  // There may be something to read; something to write that was not tried yet.
  void mark_readable(Lane& lane);
  void mark_dirty(Lane& lane);
  // One more, or one less, waits for what only epoll can tell: room to write, a connection that is being made.
  void await_events(int change) { waits_ += change; }
  void forget(Lane& lane);
  // Something is expected from the peer; nothing any more.
  void expect(Peer& peer) { hot_.push_back(&peer); }
  void cease(Peer& peer) { std::erase(hot_, &peer); }
  // For frames that come in many at once. Used up before the next read.
  std::byte* scratch() { return scratch_.get(); }
  static constexpr std::size_t kScratchBytes = 64 << 10;

  // Of a connection that this side is done with: writes `rest`, then the end of the stream, and closes it when the peer
  // has, so that nothing sent on it is lost. Never throws for a connection that is broken.
  void see_off(UniqueFd fd, std::vector<std::byte> rest);
  void forget(const Farewell& over);

 private:
  bool harvest();
  bool polls_directly() const;
  template <typename Work>
  int each_in_turn(std::vector<Lane*>* list, bool Lane::*is_listed, Work&& work);
  int flush_dirty();
  int read_hot();
  int read(Lane& lane);
  void set_ticking();

  const roda_host* host_;
  const Settings settings_;
  EventSet events_;
  UniqueFd ticker_;
  ForkGuard ticker_guard_;
  bool is_ticking_ = false;
  std::vector<Group*> groups_;
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
