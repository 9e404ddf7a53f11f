// One use of the transport by this process: settings, the descriptor to sleep on, and the groups.
#pragma once

#include <string>
#include <vector>

#include "plugins/base/event_set.h"
#include "transports/shm/shm.h"

namespace roda::shm {

class Group;
struct Peer;

// As far as known without a context.
inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_MAP | RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST |
                                               RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY | RODA_CAP_MEMORY_STAYS;

// Threads: as the ABI says, one at a time. Throws sdk::Failure.
class Context {
 public:
  explicit Context(const roda_host* host);

  std::uint64_t capabilities() const;
  int event_fd() const { return events_.fd(); }
  int bell_fd() const { return events_.bell_fd(); }
  const Settings& settings() const { return settings_; }

  int progress();
  // True: sleep; false: there is something to do.
  bool arm();
  void disarm();

  void add(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }
  // Makes event_fd() readable when the descriptor is. `peer` dies when it becomes so, null: it is a mailbox.
  void watch(int fd, Peer* peer);
  void unwatch(int fd) { events_.unwatch(fd); }
  void ring() { events_.ring(); }

  void log(int level, const std::string& text) const { sdk::log(host_, level, "shm", text); }
  // In a forked child the memory of the groups isn't mapped and everything is refused.
  bool in_owner() const { return events_.in_owner(); }
  // Tells the groups of peers whose processes ended. True when there were some.
  bool find_deaths();

 private:
  const roda_host* host_;
  Settings settings_;
  EventSet events_;
  std::vector<Group*> groups_;
  bool armed_ = false;
};

}  // namespace roda::shm
