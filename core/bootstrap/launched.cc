#include "core/bootstrap/launched.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>

#include "core/bootstrap/host_identity.h"
#include "core/bootstrap/job_secret.h"
#include "core/bootstrap/store_server.h"
#include "core/bootstrap/tcp_store.h"
#include "plugins/base/address.h"
#include "plugins/base/format.h"

namespace roda {

namespace {

// What the first rank tells the others. Plain bytes: it travels between processes of one build, checked later.
struct Invitation {
  std::int32_t code = RODA_OK;
  std::int32_t port = 0;
  std::uint32_t secret_bytes = 0;
  char text[600] = {};  // the address, or what went wrong
  std::uint8_t secret[256] = {};
};

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

// This job's server and the one before it: a rank may still be reading how the last start ended.
void keep(std::unique_ptr<StoreServer> server) {
  static std::mutex mutex;
  static auto* kept = new std::deque<std::unique_ptr<StoreServer>>;  // not ended by exit: others may need it longer
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(server));
  if (kept->size() > 2) kept->pop_front();
}

Status serve(const Knobs& knobs, bool one_host, Invitation* invitation) {
  SocketAddress address;
  if (one_host && knobs.network_interface.empty()) {
    std::vector<SocketAddress> loopback;
    RODA_RETURN_IF_ERROR(resolve("127.0.0.1", 0, &loopback));
    address = loopback.front();
  } else {
    RODA_RETURN_IF_ERROR(interface_address(knobs.network_interface, &address));
  }
  Secret secret;
  RODA_RETURN_IF_ERROR(generate_secret(&secret));
  std::unique_ptr<StoreServer> server;
  RODA_RETURN_IF_ERROR(StoreServer::start(address, secret, StoreServerOptions(), &server));
  const std::string host = server->address().host();
  std::memcpy(invitation->text, host.data(), std::min(host.size(), sizeof invitation->text - 1));
  invitation->port = server->address().port();
  invitation->secret_bytes = static_cast<std::uint32_t>(secret.bytes().size());
  std::memcpy(invitation->secret, secret.bytes().data(), secret.bytes().size());
  keep(std::move(server));
  return {};
}

Status invite(const Job& job, const Knobs& knobs, Invitation* invitation) {
  bool one_host = false;
  RODA_RETURN_IF_ERROR(all_on_one_host(job, &one_host));
  if (job.rank() == 0) {
    if (const Status status = serve(knobs, one_host, invitation); !status.ok()) {
      invitation->code = status.code();
      std::snprintf(invitation->text, sizeof invitation->text, "rank 0: %s", status.message().c_str());
    }
  }
  RODA_RETURN_IF_ERROR(job.broadcast(invitation, sizeof *invitation));
  return invitation->code == RODA_OK ? Status() : Status(invitation->code, invitation->text, 0);
}

}  // namespace

Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members, Knobs* knobs,
                         Secret* secret, std::unique_ptr<Store>* store) {
  Job job(bootstrap);
  RODA_RETURN_IF_ERROR(job.start(host, members, knobs->gloo_timeout_seconds));
  Invitation invitation;
  const Status status = invite(job, *knobs, &invitation);
  Secret received{std::span<const std::uint8_t>(
      invitation.secret, std::min<std::size_t>(invitation.secret_bytes, sizeof invitation.secret))};
  explicit_bzero(invitation.secret, sizeof invitation.secret);
  RODA_RETURN_IF_ERROR(status);
  RODA_RETURN_IF_ERROR(TcpStore::connect(invitation.text, invitation.port, received,
                                         std::chrono::seconds(knobs->gloo_timeout_seconds), store));
  knobs->rank = job.rank();
  knobs->size = job.size();
  *secret = std::move(received);
  return {};
}

}  // namespace roda
