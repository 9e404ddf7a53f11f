// Whether what was handed to an endpoint has left this process, and whether it has reached the peer.
//
// UCX ends a send once the caller's buffer is free, which over TCP may be when the last bytes lie in a buffer of UCX's
// own: they leave when the sender makes progress again, and an engine that has nothing in flight makes none. UCX takes
// no further message for that connection until they have left; so a message of no meaning that it has taken says that
// they have. A flush of UCX's would say more, but over TCP it needs the peer's progress, who may be done as well. An
// ended put has reached the peer's memory when a flush completes.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

namespace roda::ucx {

// One or the other for one endpoint, one at a time, shared by all who wait. Threads: one at a time. Lives as long as
// the worker.
class Flush {
 public:
  enum class Kind {
    kDrain,  // has left this process
    kReach,  // has reached the peer's memory
  };
  explicit Flush(Kind kind) : kind_(kind) {}

  // For everything that was handed to the endpoint before this call.
  std::uint64_t ticket() const { return started_ + 1; }

  // True once such a flush is over; starts one when that is due. False forever once status() is an error.
  bool passed(ucp_ep_h endpoint, std::uint64_t ticket) {
    if (done_ >= ticket) return true;
    if (done_ == started_ && status_ == UCS_OK) start(endpoint);
    return done_ >= ticket;
  }

  ucs_status_t status() const { return status_; }
  bool in_flight() const { return started_ != done_; }

 private:
  void start(ucp_ep_h endpoint);
  static void on_end(void* request, ucs_status_t status, void* self);
  void end(ucs_status_t status) {
    if (status != UCS_OK) status_ = status;
    if (status == UCS_OK) done_ = started_;
  }

  const Kind kind_;
  std::uint64_t started_ = 0;
  std::uint64_t done_ = 0;
  ucs_status_t status_ = UCS_OK;
};

}  // namespace roda::ucx
