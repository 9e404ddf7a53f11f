// A stage for data on a device whose work is not put on the device's stream. Either it works in host memory, and the
// data are copied down into memory that both reach, and back up; or it works on the device's memory (a schedule over
// messages of a transport that takes it), and only has to wait for what the stream holds.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

// StageArgs::queue must be given. Its copies go on that queue's stream.
class StagedStage final : public Stage {
 public:
  enum class Way : std::uint8_t { kThroughHost, kDirect };
  // Around one stage, its own. `rank`, `size`: of the group that it runs over.
  StagedStage(std::unique_ptr<Stage> stage, int rank, int size);
  // Around stages of others, one after the other: wrap() comes before each start().
  StagedStage() = default;
  ~StagedStage() override;
  void wrap(Stage* stage, int rank, int size, Way way = Way::kThroughHost);

  // What comes before on the stream is not over, or is and it was not let in yet. Stages that must begin in
  // one order on every rank are let in by whoever knows it.
  bool is_outside() const { return phase_ == Phase::kDown; }
  void let_in(bool may_enter) { may_enter_ = may_enter; }

  std::uint64_t moves() const override { return moves_ + (inner_ == nullptr ? 0 : inner_->moves()); }
  std::string describe() const override;

 private:
  enum class Phase : std::uint8_t { kIdle, kDown, kInside, kUp };

  Status prepare_buffers();
  Status point_to_device();
  Status open_own_stream();
  Status copy_down();
  Status copy_up();
  Status begin(const StageArgs& args) override;
  Status advance(bool* done) override;
  void abort_groups(const Status& cause) override { inner_->abort(cause); }
  bool release() override;
  bool is_one_of_many() const { return roda_collective_is(args_.collective, RODA_ROOTED) != 0 && rank_ != args_.root; }
  bool combines() const { return roda_collective_is(args_.collective, RODA_COMBINES) != 0; }
  bool reads_input() const { return combines() || !is_one_of_many(); }
  bool writes_output() const { return !combines() || !is_one_of_many(); }
  std::size_t input_bytes() const;
  std::size_t output_bytes() const;

  std::unique_ptr<Stage> own_;
  Stage* inner_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  Way way_ = Way::kThroughHost;
  Phase phase_ = Phase::kIdle;
  StageArgs args_;
  StageArgs inner_args_;
  DeviceMemory input_, output_;
  roda_memory input_range_{}, output_range_{};  // of the device, where the stage works on it
  DeviceQueue own_queue_;                       // then
  std::shared_ptr<DeviceEvent> copied_;
  bool may_enter_ = true;
  std::uint64_t moves_ = 0;
};

}  // namespace roda::execute
