// One UCX worker: the connections of one group, and the descriptor that tells of their events.
//
// Every group has a worker of its own. Its endpoints can then be closed by force without touching another group, tags
// and control messages of different groups can't meet, and destroying the worker ends all that is left.
#pragma once

#include <ucp/api/ucp.h>

#include <vector>

#include "transports/ucx/library.h"

namespace roda::ucx {

// Threads: one at a time. Throws sdk::Failure.
class Worker {
 public:
  // The library outlives it.
  explicit Worker(const Library& library);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  std::vector<char> address() const;

  // Events handled.
  int progress() { return static_cast<int>(ucp_worker_progress(worker_)); }
  // The same for the worker's whole life.
  int event_fd() const { return event_fd_; }
  // True: the descriptor becomes readable at the next event. False: there are events already.
  bool arm();

 private:
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

}  // namespace roda::ucx
