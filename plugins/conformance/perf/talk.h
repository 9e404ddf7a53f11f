// One rank's calls of a transport's table, as the measurements make them: started again while the transport is busy,
// then driven to their end in the way that was asked for.
#pragma once

#include <poll.h>
#include <sched.h>

#include "plugins/conformance/perf/measure.h"

namespace roda::conformance::perf {

class Talk {
 public:
  Talk(Env& env, Group& group, Wait wait) : env_(env), group_(group), wait_(wait), peer_(1 - group.rank()) {}

  roda_request* send(std::uint64_t tag, const void* data, std::size_t bytes) {
    return begin([&](roda_request** request) {
      return env_.table().send(group_.get(), peer_, tag, data, bytes, nullptr, request, &error_);
    });
  }
  roda_request* receive(std::uint64_t tag, void* data, std::size_t bytes) {
    return begin([&](roda_request** request) {
      return env_.table().recv(group_.get(), peer_, tag, data, bytes, nullptr, request, &error_);
    });
  }
  roda_request* start(const roda_collective_args& args) {
    return begin(
        [&](roda_request** request) { return env_.table().collective_start(group_.get(), &args, request, &error_); });
  }
  void finish(roda_request* request) {
    while (!is_done(request)) turn();
  }

 private:
  static constexpr std::uint32_t kTurnsPerLook = 4096;

  template <typename Start>
  roda_request* begin(Start&& start) {
    roda_request* request = nullptr;
    int32_t code = RODA_OK;
    while ((code = start(&request)) == RODA_AGAIN) turn();
    CHECK(code == RODA_OK, "%d %s", code, error_.message);
    return request;
  }

  bool is_done(roda_request* request) {
    if (request == nullptr) return true;
    const int32_t code = env_.table().request_test(group_.get(), request, &error_);
    CHECK(code >= RODA_OK, "%d %s", code, error_.message);
    return code == RODA_OK;
  }

  void turn() {
    if (++turns_ % kTurnsPerLook == 0) CHECK(!env_.world().someone_failed(), "stopped: the other rank failed");
    if (env_.table().progress(env_.context()) > 0 || wait_ == Wait::kSpin) return;
    if (wait_ == Wait::kYield || env_.table().progress_mode == RODA_PROGRESS_POLL) {
      ::sched_yield();
      return;
    }
    // Without a look at the request between arming and sleeping the sleep may be in vain: it is short.
    pollfd waiting{env_.table().event_fd(env_.context()), POLLIN, 0};
    if (env_.table().arm(env_.context()) == RODA_OK) ::poll(&waiting, 1, 1);
    if (env_.table().disarm != nullptr) env_.table().disarm(env_.context());
  }

  Env& env_;
  Group& group_;
  const Wait wait_;
  const int peer_;
  std::uint32_t turns_ = 0;
  roda_error error_ = make_error();
};

}  // namespace roda::conformance::perf
