#include "core/bootstrap/join.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bootstrap/hosts.h"
#include "core/bootstrap/local_meeting.h"
#include "core/bootstrap/rendezvous.h"
#include "core/knobs/table.h"
#include "plugins/base/address.h"
#include "plugins/base/format.h"
#include "plugins/base/hmac.h"
#include "plugins/base/local_address.h"
#include "plugins/base/mutex.h"

namespace roda {

// --- by a plugin ----------------------------------------------------------------------------------------------------

namespace {

// A job of the plugin's, ended with this.
class Job {
 public:
  explicit Job(const roda_bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  ~Job() {
    if (job_ != nullptr) bootstrap_.finish(job_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Status start(const roda_host* host, const Members& members, int timeout_seconds) {
    roda_job_options options{};
    options.struct_size = sizeof options;
    options.num_ranks = static_cast<std::int32_t>(members.ranks.size());
    options.ranks = members.ranks.data();
    options.has_communicator = members.communicator.has_value() ? 1 : 0;
    options.communicator = members.communicator.value_or(0);
    options.timeout_ns = static_cast<std::uint64_t>(timeout_seconds) * 1'000'000'000;
    roda_error error = make_error();
    return Status::from(bootstrap_.start(host, &options, &job_, &error), error);
  }
  int rank() const { return bootstrap_.rank(job_); }
  int size() const { return bootstrap_.size(job_); }
  Status broadcast(void* data, std::size_t bytes) const {
    roda_error error = make_error();
    return Status::from(bootstrap_.broadcast(job_, data, bytes, 0, &error), error);
  }
  Status agree(bool mine, bool* all) const {
    roda_error error = make_error();
    std::int32_t answer = 0;
    RODA_RETURN_IF_ERROR(Status::from(bootstrap_.agree(job_, mine ? 1 : 0, &answer, &error), error));
    *all = answer != 0;
    return {};
  }

 private:
  const roda_bootstrap& bootstrap_;
  roda_job* job_ = nullptr;
};

Status all_on_one_host(const Job& job, bool* answer) {
  const HostIdentity host = this_host("");
  char mine[512] = {}, first[512] = {};
  const std::string text = roda::format("{} {} {}", host.boot_id, host.hostname, host.network_namespace);
  std::memcpy(mine, text.data(), std::min(text.size(), sizeof mine - 1));
  std::memcpy(first, mine, sizeof first);
  RODA_RETURN_IF_ERROR(job.broadcast(first, sizeof first));
  return job.agree(std::memcmp(mine, first, sizeof mine) == 0, answer);
}

// At which all that is offered is reached; what is of another kind than the first is left out.
SocketAddress listening_address(std::vector<SocketAddress>* offered) {
  const SocketAddress first = offered->front();
  std::erase_if(*offered, [&](const SocketAddress& other) {
    return other.family() != first.family() || other.is_loopback() != first.is_loopback();
  });
  std::vector<SocketAddress> any;
  const bool is_one = offered->size() == 1 || !resolve(first.family() == AF_INET ? "0.0.0.0" : "::", 0, &any).ok();
  return is_one ? first : any.front();
}

// At all of these addresses, or those of them that are reached together.
Status serve(std::vector<SocketAddress> offered, Invitation* invitation) {
  Secret secret;
  SocketAddress bound;
  RODA_RETURN_IF_ERROR(generate_secret(&secret));
  RODA_RETURN_IF_ERROR(serve_store(listening_address(&offered), secret, &bound));
  invitation->offer(offered, bound.port(), secret);
  return {};
}

Status serve(const Knobs& knobs, bool one_host, Invitation* invitation) {
  if (knobs.network_interface.empty()) {
    return serve(one_host ? loopback_addresses() : network_addresses(""), invitation);  // whichever the others reach
  }
  SocketAddress address;
  RODA_RETURN_IF_ERROR(interface_address(knobs.network_interface, &address));
  return serve({address}, invitation);
}

// The first rank serves the store and tells the others where; what kept it from that is everybody's error.
Status exchange(const Job& job, const Knobs& knobs, Invitation* invitation) {
  bool one_host = false;
  RODA_RETURN_IF_ERROR(all_on_one_host(job, &one_host));
  if (job.rank() == 0) {
    const Status served = serve(knobs, one_host, invitation);
    if (!served.ok()) invitation->refuse(Status(served.code(), "rank 0: " + served.message()));
  }
  return job.broadcast(invitation, sizeof *invitation);
}

// What the launcher told this process, against what its library made of it.
Status check_size(const DeclaredJob& declared, const roda_bootstrap& bootstrap, int size) {
  const bool is_alone = size == 1 && declared.size > 1;
  if (!is_alone && (!declared.is_mpi || declared.size == size)) return {};
  return Status::precondition(roda::format(
      "{} says that this is rank {} of {} ({}), but {} came up with {} process{}: the launcher and the library here do "
      "not belong together. Start the job with the {} that is installed where the ranks run, or with horovodrun; or "
      "set HOROVOD_CONTROLLER={}, and the ranks meet without it{}",
      declared.launcher, declared.rank, declared.size, declared.evidence, bootstrap.name, size, size == 1 ? "" : "es",
      bootstrap.name, knobs::kOwnRendezvous, declared.is_one_host ? "" : " at MASTER_ADDR"));
}

constexpr int kPortsTried = 16;
constexpr std::chrono::seconds kTakeover{3};  // for the process that had a job's name before to end

// Where this process's job met.
struct Place {
  std::string identity;
  std::string host;
  int port = 0;
  Secret secret;
  LocalMeeting name;  // kept, so that no other rank 0 of this identity comes up beside this one
};

Status meet_here(const DeclaredJob& job, Deadline deadline, Place* place) {
  const std::string name = LocalMeeting::name_of(job.identity);
  Invitation invitation;
  if (job.rank != 0) {
    RODA_RETURN_IF_ERROR(LocalMeeting::join(name, job.rank, deadline, &invitation));
  } else {
    LocalMeeting meeting;
    RODA_RETURN_IF_ERROR(meeting.open(name, std::min(deadline, Store::Clock::now() + kTakeover)));
    Status status = meeting.wait_for_all(job.size, deadline);
    if (status.ok()) status = serve({loopback_addresses().front()}, &invitation);
    if (!status.ok()) invitation.refuse(status);
    meeting.tell_all(invitation);
  }
  RODA_RETURN_IF_ERROR(invitation.status());
  place->host = invitation.text;
  place->port = invitation.port;
  place->secret = invitation.offered();
  return {};
}

Status find_secret(const Knobs& knobs, const std::string& identity, Secret* secret) {
  if (knobs.secret_fd >= 0 || !knobs.secret_file.empty() || !knobs.legacy_secret.empty()) {
    return load_secret(knobs, secret);
  }
  Digest digest{};
  RODA_RETURN_IF_ERROR(hmac_sha256(bytes_of("a job without a secret"), {bytes_of(identity)}, &digest));
  *secret = Secret(digest);
  return {};
}

// Where rank 0 listens for other hosts.
Status choose_address(const DeclaredJob& job, const Knobs& knobs, SocketAddress* address) {
  if (!knobs.network_interface.empty()) return interface_address(knobs.network_interface, address);
  std::vector<SocketAddress> named;
  static_cast<void>(resolve(job.address, 0, &named));  // a cluster's name service may learn of this host later
  if (const std::vector<SocketAddress> own = own_among(named); !own.empty()) {
    *address = own.front();
    return {};
  }
  // The name leads here by way of something that translates addresses, or is this host's name for itself.
  if (named.empty()) named = network_addresses("");
  const bool is_ipv4 = std::ranges::any_of(named, [](const auto& each) { return each.family() == AF_INET; });
  RODA_RETURN_IF_ERROR(resolve(is_ipv4 ? "0.0.0.0" : "::", 0, &named));
  *address = named.front();
  return {};
}

Status serve_at(const DeclaredJob& job, const Knobs& knobs, Place* place) {
  RODA_RETURN_IF_ERROR(place->name.open(LocalMeeting::name_of(job.identity), Store::Clock::now() + kTakeover));
  SocketAddress address;
  RODA_RETURN_IF_ERROR(choose_address(job, knobs, &address));
  const std::vector<int> ports = ports_above(job.port);
  Status status;
  for (const int port : ports) {
    address.set_port(port);
    SocketAddress bound;
    status = serve_store(address, place->secret, &bound);
    if (!status.ok()) continue;
    const std::string host = bound.host();
    place->host = host == "0.0.0.0" || host == "::" ? loopback_addresses().front().host() : host;
    place->port = port;
    return {};
  }
  return Status(status.code(), roda::format("rank 0 can't listen on any of the ports {} to {}: {}", ports.front(),
                                            ports.back(), status.message()));
}

Status reach(const DeclaredJob& job, Deadline deadline, Place* place, std::unique_ptr<Store>* store) {
  const std::vector<int> ports = ports_above(job.port);
  const auto places = [&](std::vector<SocketAddress>* places) {
    std::vector<SocketAddress> addresses;
    RODA_RETURN_IF_ERROR(resolve(job.address, 0, &addresses));
    for (SocketAddress& address : addresses) {
      for (const int port : ports) {
        address.set_port(port);
        places->push_back(address);
      }
    }
    return Status();
  };
  SocketAddress reached;
  const Status status = reach_store(places, place->secret, deadline, &reached, store);
  if (!status.ok()) {
    return Status(RODA_ERR_TIMEOUT,
                  roda::format("can't reach rank 0 at {}, ports {} to {}: {}", job.address, ports.front(), ports.back(),
                               status.message()),
                  0);
  }
  place->host = reached.host();
  place->port = reached.port();
  return {};
}

Status meet(const DeclaredJob& job, const Knobs& knobs, Deadline deadline, Place* place) {
  if (job.is_one_host) return meet_here(job, deadline, place);
  if (job.address.empty()) {
    return Status::invalid(
        "nothing says where rank 0 is: set MASTER_ADDR to its host's address on every rank (127.0.0.1 where all ranks "
        "share a host), or start the job with horovodrun");
  }
  RODA_RETURN_IF_ERROR(find_secret(knobs, job.identity, &place->secret));
  if (job.rank == 0) return serve_at(job, knobs, place);
  std::unique_ptr<Store> probe;
  return reach(job, deadline, place, &probe);
}

}  // namespace

Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members,
                         const DeclaredJob& declared, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store) {
  Job job(bootstrap);
  RODA_RETURN_IF_ERROR(job.start(host, members, knobs->gloo_timeout_seconds));
  if (members.is_everybody()) RODA_RETURN_IF_ERROR(check_size(declared, bootstrap, job.size()));
  Invitation invitation;
  RODA_RETURN_IF_ERROR(exchange(job, *knobs, &invitation));
  RODA_RETURN_IF_ERROR(accept(invitation, std::chrono::seconds(knobs->gloo_timeout_seconds), secret, store));
  knobs->rank = job.rank();
  knobs->size = job.size();
  return {};
}

// --- by variables ---------------------------------------------------------------------------------------------------

std::vector<int> ports_above(int port) {
  std::vector<int> ports;
  const int first = port + kPortsTried < 65536 ? port + 1 : port - kPortsTried;
  for (int i = 0; i < kPortsTried; ++i) ports.push_back(first + i);
  return ports;
}

Status join_declared_job(const DeclaredJob& job, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store) {
  static Mutex mutex;
  static auto* last RODA_PT_GUARDED_BY(mutex) = new std::unique_ptr<Place>;  // not ended by exit
  const MutexLock lock(mutex);
  const std::chrono::seconds timeout(knobs->gloo_timeout_seconds);
  const std::string identity = roda::format("{} {}", job.identity, job.rank);
  if (*last == nullptr || (*last)->identity != identity) {
    last->reset();
    auto place = std::make_unique<Place>();
    const Status status = meet(job, *knobs, Store::Clock::now() + timeout, place.get());
    if (!status.ok()) {
      return Status(
          status.code(),
          roda::format("{}. {} says that this is rank {} of {} ({}); all of them must call init, within "
                       "HOROVOD_GLOO_TIMEOUT_SECONDS={}",
                       status.message(), job.launcher, job.rank, job.size, job.evidence, knobs->gloo_timeout_seconds),
          status.rank());
    }
    place->identity = identity;
    *last = std::move(place);
  }
  const Place& place = **last;
  RODA_RETURN_IF_ERROR(connect_store(place.host, place.port, place.secret, timeout, store));
  knobs->rank = job.rank;
  knobs->size = job.size;
  *secret = place.secret;
  return {};
}

}  // namespace roda
