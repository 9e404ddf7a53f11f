#include "transports/shm/context.h"

#include <sys/epoll.h>
#include <roda/sdk/error.hpp>
#include <roda/sdk/transport.hpp>

#include "transports/shm/group.h"
#include "transports/shm/segment.h"
#include "transports/shm/shm.h"

namespace roda::shm {

bool Context::arm() {
  clear_rings();
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
  int count = ::epoll_wait(event_fd(), events, 8, 0);
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
