// One use of the transport by this process: settings, the descriptor to sleep on, and the groups.
#pragma once

#include <roda/abi/transport.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "plugins/base/unique_fd.h"

namespace roda::shm {

class Group;
struct Peer;

// Knobs, all for tests and measurements.
struct Settings {
  bool force_posix = false;                        // RODA_SHM_FORCE_POSIX=1: no memfd
  bool cma = true;                                 // RODA_SHM_CMA=0: as where the kernel refuses it
  std::size_t eager_bytes = 16 << 10;              // RODA_SHM_EAGER_BYTES: longer messages wait for their receive
  std::uint32_t ring_bytes = 256 << 10;            // RODA_SHM_RING_BYTES: between each two ranks; a power of two
  std::size_t heap_bytes = std::size_t{64} << 30;  // RODA_SHM_HEAP_BYTES: address space for memory_alloc, not memory
};

// As far as known without a context.
inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_MAP | RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST |
                                               RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;

// Threads: as the ABI says, one at a time. Throws sdk::Failure.
class Context {
 public:
  explicit Context(const roda_host* host);

  std::uint64_t capabilities() const;
  int event_fd() const { return epoll_.get(); }
  int bell_fd() const { return bell_.get(); }
  const Settings& settings() const { return settings_; }

  int progress();
  // True: sleep; false: there is something to do.
  bool arm();
  void disarm();

  void add(Group* group) { groups_.push_back(group); }
  void remove(Group* group);
  // Makes event_fd() readable when the descriptor is. `peer` dies when it becomes so, null: it is a mailbox.
  void watch(int fd, Peer* peer);
  void unwatch(int fd);
  void ring_own_bell();

  void log(int level, const std::string& text) const;
  // In a forked child the memory of the groups isn't mapped and everything is refused.
  bool in_owner() const;
  // Tells the groups of peers whose processes ended. True when there were some.
  bool find_deaths();

 private:
  void read_settings();

  const roda_host* host_;
  pid_t owner_;
  Settings settings_;
  UniqueFd bell_;
  UniqueFd epoll_;
  ForkGuard bell_guard_;
  ForkGuard epoll_guard_;
  std::vector<Group*> groups_;
  bool armed_ = false;
};

}  // namespace roda::shm
