#include "core/bootstrap/launched.h"

#include <algorithm>
#include <cstring>

#include "core/bootstrap/hosts.h"
#include "core/bootstrap/job_secret.h"
#include "core/bootstrap/rendezvous.h"
#include "core/knobs/table.h"
#include "plugins/base/address.h"
#include "plugins/base/format.h"
#include "plugins/base/local_address.h"

namespace roda {

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

Status serve(const Knobs& knobs, bool one_host, Invitation* invitation) {
  SocketAddress address = loopback_addresses().front();
  if (!one_host || !knobs.network_interface.empty()) {
    RODA_RETURN_IF_ERROR(interface_address(knobs.network_interface, &address));
  }
  Secret secret;
  RODA_RETURN_IF_ERROR(generate_secret(&secret));
  RODA_RETURN_IF_ERROR(serve_store(address, secret, &address));
  invitation->offer(address, secret);
  return {};
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

}  // namespace roda
