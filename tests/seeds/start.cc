#include "tests/seeds/start.h"

#include <array>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "core/bootstrap/gather.h"
#include "core/bootstrap/rendezvous.h"

namespace roda::seeds {
namespace {

constexpr std::chrono::seconds kStart{30}, kLastWord{3};
const Secret kSecret{std::array<std::uint8_t, 16>()};

// Why a peer that can't be reached gave up, which is told a moment later.
Status first_cause(Store& store, const std::string& key, const Status& mine) {
  std::string nothing;
  const Status told =
      store.wait(key + "/a key that nobody puts", std::chrono::steady_clock::now() + kLastWord, &nothing);
  return told.rank() < 0 ? mine : told;
}

}  // namespace

void Rendezvous::serve(Machine& machine, const void* bell, const std::function<bool()>& is_over) {
  std::vector<SocketAddress> here;
  Status status = resolve("127.0.0.1", 0, &here);
  if (status.ok()) status = StoreServer::start(here.front(), kSecret, {}, &server_);
  if (!status.ok()) throw std::runtime_error(status.message());
  machine.ring(this, SIZE_MAX);
  while (!is_over() && !machine.is_burying()) machine.sleep({}, bell, Time::max(), true);
  server_->stop();
}

bool Rendezvous::await(Machine& machine) const {
  while (server_ == nullptr && !machine.is_burying()) machine.sleep({}, this, Time::max(), true);
  return !machine.is_burying();
}

Status Rendezvous::come_together(engine::Parts* own) const {
  const Topology& topology = own->topology;
  RODA_RETURN_IF_ERROR(connect_store("127.0.0.1", server_->address().port(), kSecret, kStart, &own->store));
  RODA_RETURN_IF_ERROR(own->store->enter(own->job_key, own->rank));
  control::ControlPlane::Membership options;
  options.key = own->job_key + "/control";
  options.address = own->address;
  options.host = topology.host_of(own->rank).name;
  options.secret = kSecret;
  options.deadline = std::chrono::steady_clock::now() + kStart;
  options.fan_out = own->knobs.control_fan_out;
  options.cache_capacity = own->knobs.cache_capacity;
  const auto agree = [&](const std::string& on) {
    return check_agreement(*own->store, own->rank, topology.size(), own->job_key + on, "version=1", options.deadline);
  };
  Status status = agree("/version");
  if (status.ok()) {
    status = control::ControlPlane::connect(*own->store, topology, own->rank, options, &own->control);
    if (!status.ok()) status = first_cause(*own->store, options.key, status);
  }
  if (status.ok()) status = agree("/connected");
  const Status left = own->store->leave(own->job_key, status);
  if (status.ok()) status = left;
  if (!status.ok() && own->control != nullptr) {
    own->control->abort(status);
    static_cast<void>(own->control->service(true));
  }
  return status;
}

}  // namespace roda::seeds
