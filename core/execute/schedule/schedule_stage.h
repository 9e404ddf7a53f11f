// Runs a schedule over the messages, signals and windows of a group, in pieces with several in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/schedule/layout.h"
#include "core/execute/schedule/program.h"
#include "core/execute/schedule/run.h"
#include "core/execute/stage.h"

namespace roda::execute {

// Schedules of messages run slice by slice on the user's memory; on a device (StageArgs::queue) that takes a context
// whose messages take it, all that came before on the queue's stream is over when the stage starts, and its copies and
// reductions are over on the stream when it ends. One-sided ones run once over memory that peers reach,
// or block by block through staging memory of the transport.
class ScheduleStage final : public Stage {
 public:
  // `group` and `options` outlive it.
  ScheduleStage(TransportGroup& group, const ExecuteOptions& options, Program program);

  bool takes_buckets() const override;
  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  void abort(const Status& cause) override;
  std::uint64_t moves() const override { return moves_; }
  std::string describe() const override;

 private:
  Status check(const StageArgs& args) const;
  Status advance(Effort* effort);
  Status refill();
  void fail(const Status& cause);
  Status end_failed(bool* done);

  TransportGroup& group_;
  const ExecuteOptions& options_;
  const Program program_;
  std::vector<std::unique_ptr<Run>> runs_;  // piece k runs in runs_[k % size]
  StageArgs args_;
  Layout layout_;
  bool staged_ = false;
  bool running_ = false;
  std::size_t begun_ = 0;  // pieces
  std::size_t ended_ = 0;  // pieces before it have ended
  std::uint64_t moves_ = 0;
  std::uint32_t idle_tests_ = 0;  // in a row
  Status failure_;
};

}  // namespace roda::execute
