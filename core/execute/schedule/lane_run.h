// One lane of one run on its way through its ops.
#pragma once

#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/buffer.h"
#include "core/execute/schedule/program.h"
#include "core/execute/schedule/run_view.h"
#include "plugins/base/status.h"

namespace roda::execute {

// What is left of the work that one test() may do, in bytes, and a count of things that moved.
struct Effort {
  std::size_t budget = 0;
  std::uint64_t moves = 0;

  void spend(std::size_t bytes) {
    budget -= bytes < budget ? bytes : budget;
    ++moves;
  }
};

class LaneRun {
 public:
  // `view` and `lane` outlive it.
  LaneRun(const RunView& view, const LaneProgram& lane, std::uint32_t index);

  void restart();
  // Until the lane ends, must wait, or the budget is spent. An error leaves requests pending; see release().
  Status advance(Effort* effort);
  bool done() const { return next_ == lane_.ops.size() && sends_.empty(); }
  // After a failure: true when no request is pending any more.
  bool release();
  // "recv from rank 3, step 4 of 12".
  std::string describe() const;

 private:
  enum class Turn { kDone, kBlocked };

  struct Pending {
    roda_request* request = nullptr;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Send {
    roda_request* request = nullptr;
    const char* begin = nullptr;
    const char* end = nullptr;
  };
  // Requests of the op under way complete in the order they were started.
  static constexpr std::uint32_t kMostPending = 4;

  struct OpState {
    bool entered = false;
    bool mapped = false;
    bool empty_sent = false;
    std::size_t posted = 0;
    std::size_t done = 0;
    std::uint32_t source = 0;  // or tensor
    int peer = 0;
  };

  Status enter(const Op& op, Turn* turn);
  Status step(const Op& op, Effort* effort, Turn* turn);
  Status send(const Op& op, Effort* effort, Turn* turn);
  Status recv(const Op& op, Effort* effort, Turn* turn);
  Status recv_reduce(const Op& op, Effort* effort, Turn* turn);
  Status combine_mapped(const Op& op, Effort* effort, Turn* turn);
  Status combine_by_gets(const Op& op, Effort* effort, Turn* turn);
  Status get_source(const Op& op, const Source& source, Effort* effort, Turn* turn);
  Status put(const Op& op, Effort* effort, Turn* turn);
  Status combine_vectors(const Op& op, Effort* effort, Turn* turn);  // kDots, kWeigh
  Status signal(const Op& op, Effort* effort, Turn* turn);
  Status wait(const Op& op, Effort* effort, Turn* turn);

  Status reap_sends(const char* begin, const char* end, bool* clear);
  Status reap(Effort* effort, Pending* finished, bool* got);
  Status post_recv(const Op& op, std::uint32_t most, bool bounce);
  void push(roda_request* request, std::size_t offset, std::size_t bytes);
  const char* local(std::uint32_t index) const { return static_cast<const char*>(mapped_[index]); }
  Status no_reduction(int code) const;
  Status reduce(char* dst, const char* a, const char* b, std::size_t bytes);
  void add_products(char* dst, const char* a, const char* b, std::size_t bytes) const;
  Status combine_on_device(const Op& op, Turn* turn);
  Status reduce_on_device(char* dst, const char* a, const char* b, std::size_t bytes);
  // What was put on the device's stream last is over.
  Status is_device_idle(bool* idle);
  void copy(char* dst, const char* src, std::size_t bytes) const;
  void map_sources(const Op& op);
  char* bounce(std::uint32_t half, std::size_t half_bytes);
  Status reserve_bounce(std::size_t half_bytes);
  const Source& source(const Op& op, std::uint32_t index) const { return view_.program->sources[op.source + index]; }

  const RunView& view_;
  const LaneProgram& lane_;
  std::uint32_t index_;
  std::size_t next_ = 0;
  OpState state_;
  Pending pending_[kMostPending];
  std::uint32_t head_ = 0;
  std::uint32_t count_ = 0;
  std::vector<Send> sends_;
  std::vector<const void*> mapped_;  // sources of the combine under way, null: must be fetched
  Buffer bounce_;
  DeviceMemory bounce_on_device_;
  std::shared_ptr<DeviceEvent> device_work_;  // behind the copies and reductions under way there
};

}  // namespace roda::execute
