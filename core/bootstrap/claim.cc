#include "core/bootstrap/claim.h"

#include <sys/random.h>
#include <unistd.h>

#include "plugins/base/format.h"

namespace roda {

Status claim_rank(Store& store, int rank, const HostIdentity& host, const std::string& prefix,
                  Store::Clock::time_point deadline) {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce)) {
    return Status::system("getrandom failed");
  }
  const std::string mine = roda::format("process {} on host {} #{:016x}", ::getpid(), host.hostname, nonce);
  const std::string key = roda::format("{}/owner/{}", prefix, rank);
  std::string owner;
  RODA_RETURN_IF_ERROR(store.put_if_absent(key, mine));
  RODA_RETURN_IF_ERROR(store.wait(key, deadline, &owner));
  if (owner == mine) return {};
  return Status(
      RODA_ERR_PRECONDITION,
      roda::format("rank {} was started twice: {} has this number too. Give every process its own HOROVOD_RANK, "
                   "and every job its own rendezvous",
                   rank, owner.substr(0, owner.find(" #"))),
      rank);
}

}  // namespace roda
