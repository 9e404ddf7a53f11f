#include "transports/shm/context.h"

#include <sys/epoll.h>
#include <roda/sdk/error.hpp>
#include <roda/sdk/transport.hpp>

#include <bit>

#include "transports/shm/group.h"
#include "transports/shm/segment.h"
#include "transports/shm/shm.h"

namespace roda::shm {
Context::Context(const roda_host* host) : host_(host), settings_(sdk::read_settings(kSettings, host)) {
  settings_.ring_bytes = std::bit_floor(settings_.ring_bytes);
  std::string reason = "it is turned off";
  if (!settings_.cma || !cma_allowed(&reason)) {
    settings_.cma = false;
    log(RODA_LOG_INFO, "no cross-memory attach, private memory is copied twice: " + reason);
  }
  sdk::expect_ok(events_.open(), "shm");
}

// Windows over private memory work without cross-memory attach too, by way of the rings, but then others serve better.
std::uint64_t Context::capabilities() const {
  return settings_.cma ? kCapabilities : kCapabilities & ~std::uint64_t{RODA_CAP_WINDOW_ANY};
}

void Context::watch(int fd, Peer* peer) { sdk::expect_ok(events_.watch(fd, peer, EPOLLIN), "shm"); }

int Context::progress() {
  int handled = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
  return handled;
}

bool Context::arm() {
  events_.clear_rings();
  if (find_deaths()) return false;
  for (Group* group : groups_) group->set_sleeping(true);
  armed_ = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see Peer::wake
  for (Group* group : groups_) {
    if (group->has_news()) {
      disarm();
      return false;
    }
  }
  return true;
}

void Context::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (Group* group : groups_) group->set_sleeping(false);
}

// The bell and mailboxes are read elsewhere; what is left are the processes that died.
bool Context::find_deaths() {
  epoll_event events[8];
  int count = ::epoll_wait(events_.fd(), events, 8, 0);
  bool found = false;
  for (int i = 0; i < count; ++i) {
    auto peer = static_cast<Peer*>(events[i].data.ptr);
    if (peer == nullptr) continue;
    found = true;
    peer->group->peer_died(*peer);
  }
  return found;
}

}  // namespace roda::shm

const roda_transport* roda_shm_transport() {
  static constexpr roda_transport table =
      roda::sdk::transport<roda::shm::Context, roda::shm::Group, roda::shm::kCapabilities>(
          "shm", "shared memory and cross-memory attach between processes of one host", RODA_PROGRESS_FD);
  return &table;
}
