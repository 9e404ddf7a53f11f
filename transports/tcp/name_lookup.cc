#include "transports/tcp/name_lookup.h"

#include <pthread.h>
#include <signal.h>

#include "plugins/base/fork_guard.h"
#include "plugins/base/local_address.h"

namespace roda::tcp_transport {

NameLookup::~NameLookup() {
  if (!thread_.joinable()) return;
  if (is_forked_child()) {
    thread_.detach();  // it is not here
  } else {
    thread_.join();
  }
}

bool NameLookup::finished() {
  if (thread_.joinable()) return is_finished_.load(std::memory_order_acquire);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the user's handlers run on the user's threads
  thread_ = std::thread([this] {
    addresses_ = own_name_addresses();
    is_finished_.store(true, std::memory_order_release);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return false;
}

}  // namespace roda::tcp_transport
