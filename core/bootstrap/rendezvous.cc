#include "core/bootstrap/rendezvous.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <sstream>
#include <thread>

#include "core/bootstrap/store_server.h"
#include "plugins/base/format.h"
#include "plugins/base/mutex.h"

namespace roda {

std::string scope_of(std::uint64_t generation) { return roda::format("roda/{}", generation); }

Status open_store(const Knobs& knobs, Secret* secret, std::unique_ptr<Store>* store) {
  if (knobs.rendezvous_addr.empty()) {
    if (knobs.size.value_or(1) > 1) {
      return Status::invalid(roda::format(
          "HOROVOD_SIZE={} but no rendezvous: start the job with horovodrun, or set HOROVOD_RENDEZVOUS_ADDR and _PORT",
          *knobs.size));
    }
    RODA_RETURN_IF_ERROR(generate_secret(secret));
    *store = std::make_unique<LocalStore>();
    return {};
  }
  if (knobs.rendezvous_port <= 0) {
    return Status::invalid(
        roda::format("HOROVOD_GLOO_RENDEZVOUS_ADDR={} without HOROVOD_GLOO_RENDEZVOUS_PORT", knobs.rendezvous_addr));
  }
  Secret loaded;
  RODA_RETURN_IF_ERROR(load_secret(knobs, &loaded));
  RODA_RETURN_IF_ERROR(connect_store(knobs.rendezvous_addr, knobs.rendezvous_port, loaded,
                                     std::chrono::seconds(knobs.gloo_timeout_seconds), store));
  *secret = std::move(loaded);
  return {};
}

namespace {

constexpr std::chrono::seconds kOneAttempt{2};        // where something else may listen, or nothing answers
constexpr std::chrono::milliseconds kRoundPause{50};  // between rounds over all places

// This job's server and the one before it: a rank may still be reading how the last start ended.
void keep(std::unique_ptr<StoreServer> server) {
  static Mutex mutex;
  // Not ended by exit: others may need it longer.
  static auto* kept RODA_PT_GUARDED_BY(mutex) = new std::deque<std::unique_ptr<StoreServer>>;
  const MutexLock lock(mutex);
  kept->push_back(std::move(server));
  if (kept->size() > 2) kept->pop_front();
}

}  // namespace

Invitation::~Invitation() { explicit_bzero(secret, sizeof secret); }

void Invitation::refuse(const Status& why) {
  code = why.code();
  std::snprintf(text, sizeof text, "%s", why.message().c_str());
}

void Invitation::offer(const std::vector<SocketAddress>& addresses, int at_port, const Secret& offered) {
  std::string all;
  for (const SocketAddress& address : addresses) {
    const std::string one = (all.empty() ? "" : " ") + address.host();
    if (all.size() + one.size() < sizeof text) all += one;
  }
  std::snprintf(text, sizeof text, "%s", all.c_str());
  port = at_port;
  secret_bytes = static_cast<std::uint32_t>(std::min(offered.bytes().size(), sizeof secret));
  std::memcpy(secret, offered.bytes().data(), secret_bytes);
}

Secret Invitation::offered() const {
  return Secret(std::span<const std::uint8_t>(secret, std::min<std::size_t>(secret_bytes, sizeof secret)));
}

Status serve_store(const SocketAddress& address, const Secret& secret, SocketAddress* bound) {
  std::unique_ptr<StoreServer> server;
  RODA_RETURN_IF_ERROR(StoreServer::start(address, secret, StoreServerOptions(), &server));
  *bound = server->address();
  keep(std::move(server));
  return {};
}

Status reach_store(const Places& places, const Secret& secret, Deadline deadline, SocketAddress* reached,
                   std::unique_ptr<Store>* store) {
  Status status = Status::timeout("there was no time to try");
  while (true) {
    std::vector<SocketAddress> round;
    if (const Status found = places(&round); !found.ok()) status = found;
    for (const SocketAddress& place : round) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Store::Clock::now());
      if (left.count() <= 0) return status;
      const auto timeout = round.size() == 1 ? left : std::min<std::chrono::milliseconds>(left, kOneAttempt);
      const Status tried = connect_store(place.host(), place.port(), secret, timeout, store);
      *reached = place;
      if (tried.ok()) return {};
      // A server that wants another secret tells more than a place where nobody listens.
      if (status.code() != RODA_ERR_AUTH) status = tried;
    }
    if (Store::Clock::now() >= deadline) return status;
    std::this_thread::sleep_for(kRoundPause);
  }
}

Status accept(const Invitation& invitation, std::chrono::milliseconds timeout, Secret* secret,
              std::unique_ptr<Store>* store) {
  RODA_RETURN_IF_ERROR(invitation.status());
  Secret received = invitation.offered();
  const auto places = [&](std::vector<SocketAddress>* places) {
    std::istringstream hosts(invitation.text);
    for (std::string host; hosts >> host;) {
      std::vector<SocketAddress> one;
      RODA_RETURN_IF_ERROR(resolve(host, invitation.port, &one));
      places->push_back(one.front());
    }
    return Status();
  };
  SocketAddress reached;
  const Status status = reach_store(places, received, Store::Clock::now() + timeout, &reached, store);
  if (!status.ok()) {
    return Status(status.code(),
                  roda::format("rank 0 is at none of {}, or HOROVOD_GLOO_IFACE there has to name "
                               "another interface: {}",
                               invitation.text, status.message()),
                  0);
  }
  *secret = std::move(received);
  return {};
}

}  // namespace roda
