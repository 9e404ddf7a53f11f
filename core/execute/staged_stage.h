// A stage over host memory for data on a device: down into memory that both reach, through the stage, and back up.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/execute/device_queue.h"
#include "core/execute/stage.h"

namespace roda::execute {

// StageArgs::queue must be given. Its copies go on that queue's stream.
class StagedStage final : public Stage {
 public:
  // Around one stage, its own. `rank`, `size`: of the group that it runs over.
  StagedStage(std::unique_ptr<Stage> stage, int rank, int size);
  // Around stages of others, one after the other: wrap() comes before each start().
  StagedStage() = default;
  void wrap(Stage* stage, int rank, int size);

  // The data are still being copied down, or the copy has ended and it was not let in yet. Stages that must begin in
  // one order on every rank are let in by whoever knows it.
  bool is_outside() const { return phase_ == Phase::kDown; }
  void let_in(bool may_enter) { may_enter_ = may_enter; }

  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  void abort(const Status& cause) override;
  std::uint64_t moves() const override { return moves_ + (inner_ == nullptr ? 0 : inner_->moves()); }
  std::string describe() const override;

 private:
  enum class Phase : std::uint8_t { kIdle, kDown, kInside, kUp };

  Status prepare_buffers();
  Status copy_down();
  Status copy_up();
  Status advance(bool* waits);
  bool reads_input() const { return args_.collective != RODA_BROADCAST || rank_ == args_.root; }
  std::size_t input_bytes() const;
  std::size_t output_bytes() const;

  std::unique_ptr<Stage> own_;
  Stage* inner_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  Phase phase_ = Phase::kIdle;
  StageArgs args_;
  StageArgs host_args_;
  DeviceMemory input_, output_;
  std::shared_ptr<DeviceEvent> copied_;
  bool may_enter_ = true;
  bool is_inside_ = false;  // the inner stage was started and has not ended
  std::uint64_t moves_ = 0;
  Status failure_;
};

}  // namespace roda::execute
