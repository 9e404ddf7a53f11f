// One use of the transport by this process: settings, the descriptor to sleep on, and the groups.
#pragma once

#include <roda/sdk/group_state.hpp>

#include <bit>
#include <string>
#include <vector>

#include "plugins/base/event_set.h"
#include "transports/shm/segment.h"
#include "transports/shm/shm.h"

namespace roda::shm {

class Group;
struct Peer;

// As far as known without a context.
inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_MAP | RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST |
                                               RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY | RODA_CAP_MEMORY_STAYS;

// Threads: as the ABI says, one at a time. In a forked child the memory of the groups isn't mapped and everything is
// refused. Throws sdk::Failure.
class Context : public sdk::GroupList<Group>, public EventSet {
 public:
  // With room to spare: more is mapped until the first group forms. A rank alone on its host shares nothing.
  static void suits(const roda_host* /*host*/, int ranks) {
    if (ranks > 1) check_room(ranks, room_for_group() / 2);
  }
  explicit Context(const roda_host* host) : host_(host), settings_(sdk::read_settings(kSettings, host)) {
    settings_.ring_bytes = std::bit_floor(settings_.ring_bytes);
    std::string reason = "it is turned off";
    if (!settings_.cma || !cma_allowed(&reason)) {
      settings_.cma = false;
      log(RODA_LOG_INFO, "no cross-memory attach, private memory is copied twice: " + reason);
    }
    sdk::expect_ok(open(), "shm");
  }

  // Windows over private memory work without cross-memory attach too, by way of the rings, but then others serve
  // better.
  std::uint64_t capabilities() const {
    return settings_.cma ? kCapabilities : kCapabilities & ~std::uint64_t{RODA_CAP_WINDOW_ANY};
  }
  const Settings& settings() const { return settings_; }

  // True: sleep; false: there is something to do.
  bool arm();
  void disarm();

  // Makes event_fd() readable when the descriptor is. `peer` dies when it becomes so, null: it is a mailbox.
  void watch(int fd, Peer* peer) { sdk::expect_ok(EventSet::watch(fd, peer, EPOLLIN), "shm"); }

  void log(int level, const std::string& text) const { sdk::log(host_, level, "shm", text); }
  // Tells the groups of peers whose processes ended. True when there were some.
  bool find_deaths();

 private:
  const roda_host* host_;
  Settings settings_;
  bool armed_ = false;
};

}  // namespace roda::shm
