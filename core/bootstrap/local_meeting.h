// Ranks of one host and one user find each other by the name of a socket, without a file, a port or a secret that
// somebody would have to hand out: the kernel says who is at the other end. The name is that of an abstract socket, so
// it belongs to the network namespace, as loopback does, and goes with the process that listens.
#pragma once

#include <string>
#include <vector>

#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

class LocalMeeting {
 public:
  // The name of a meeting, made of the job's identity and this process's user.
  static std::string name_of(const std::string& identity);

  // Takes the name; RODA_ERR_PRECONDITION when another process of this host still has it at the deadline.
  Status open(const std::string& name, Deadline deadline);
  // Rank 0: blocks until all others have come. A rank that ends meanwhile, that comes twice or not at all is an error,
  // which is everybody's.
  Status wait_for_all(int size, Deadline deadline);
  void tell_all(const Invitation& invitation) const;

  // The others: blocks until rank 0 tells.
  static Status join(const std::string& name, int rank, Deadline deadline, Invitation* invitation);

 private:
  struct Guest {
    UniqueFd socket;
    int pid = 0;
    int rank = -1;  // until it has said
  };

  void let_in();
  Status hear(Guest* guest, int size) const;
  std::string missing(int size) const;

  UniqueFd listener_;
  ForkGuard guard_;  // after listener_: gone before it closes
  std::vector<Guest> guests_;
};

}  // namespace roda
