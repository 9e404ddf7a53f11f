// One use of UCX by this process: the descriptor to sleep on, UCX's contexts, and the groups.
#pragma once

#include <array>
#include <memory>

#include "plugins/base/event_set.h"
#include "transports/ucx/library.h"

namespace roda::ucx {

class Group;

inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_ALLOCATE | RODA_CAP_REGISTER | RODA_CAP_FAULT_TOLERANT |
                                               RODA_CAP_WINDOW_ANY | RODA_CAP_ACTIVE_WINDOWS;

// Threads: as the ABI says, one at a time; ring() any. Throws sdk::Failure.
class Context {
 public:
  explicit Context(const roda_host* host);

  static void probe(const roda_host*);
  // Of the library that the probe found.
  static const char* description();

  // UCX's context for groups of that reach, made when first asked for.
  // `address`: GroupState::address().
  const Library& library(Reach reach, int expected_peers, const std::string& address);

  // As UCX says of its contexts here; host memory alone before there is one.
  std::uint32_t memory_kinds(int device) const;
  int event_fd() const { return events_.fd(); }
  int progress();
  // True: sleep; false: there is something to do.
  bool arm();
  void disarm() { armed_ = false; }
  bool settle();
  // Something was handed to UCX whose end may come without an event: a caller who was about to sleep must not.
  void stay_awake() {
    if (armed_) ring();
  }

  void add(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }
  // Makes event_fd() readable when `fd` is.
  void watch(int fd);
  void unwatch(int fd) { events_.unwatch(fd); }
  // Wakes the sleeper.
  void ring() { events_.ring(); }

  // In a forked child UCX must not be called.
  bool in_owner() const { return events_.in_owner(); }

 private:
  EventSet events_;
  std::array<std::unique_ptr<Library>, 2> libraries_;
  std::vector<Group*> groups_;
  bool armed_ = false;
};

}  // namespace roda::ucx
