// One run of a program over one slice of a stage's data: brings the data in, drives the lanes, brings it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/schedule/lane_run.h"

namespace roda::execute {

class Run {
 public:
  // The arguments outlive it.
  Run(TransportGroup& group, const Program& program, const ExecuteOptions& options);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Takes the slice on; `args` and `layout` live until it is done. Slices of a one-sided program begin in the same
  // order on every rank.
  Status begin(const StageArgs& args, const Layout& layout, std::size_t slice);
  // Moves on until it must wait, is done, or the budget is spent.
  Status advance(Effort* effort);
  bool idle() const { return phase_ == Phase::kIdle; }
  // After a failure: true when no request is pending any more.
  bool release();
  std::string describe() const;

 private:
  enum class Phase { kLinger, kOpen, kCopyIn, kCarry, kLanes, kTell, kCopyOut, kLeave, kIdle };
  enum class Way { kIn, kCarry, kOut };

  void use_one_tensor();
  const roda_memory* lent_memory() const;
  void find_far_peers();
  Status open();
  Status lanes(Effort* effort, bool* done);
  Status tell(bool* done);
  bool readers_left(const std::vector<std::int32_t>& readers, std::uint64_t sequence);
  Status bring_in(Effort* effort, bool* done);
  Status bring_out(Effort* effort, bool* done);
  bool copy(const std::vector<ChunkRun>& chunks, Way way, Effort* effort);
  Status carry(Effort* effort, bool* done);
  Status carry_on_device(bool* done);
  Status reserve_scratch();

  TransportGroup& group_;
  const Program& program_;
  RunView view_;
  std::vector<std::unique_ptr<LaneRun>> lanes_;
  std::shared_ptr<DeviceEvent> carried_;  // on a device: behind the copies under way
  Phase phase_ = Phase::kIdle;
  const StageArgs* args_ = nullptr;
  const Layout* layout_ = nullptr;
  // Address that the contribution to Output's chunks would have if it lay at their offsets in the user's Output; not a
  // pointer, because for allgather it may lie before the input's beginning.
  std::uintptr_t contribution_ = 0;
  std::size_t copy_run_ = 0;  // cursor of copy()
  std::int32_t copy_chunk_ = 0;
  std::size_t copy_offset_ = 0;
  std::size_t told_ = 0;
};

}  // namespace roda::execute
