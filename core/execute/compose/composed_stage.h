// Runs a composed schedule (algorithms/plan/compile.h): the data are cut into slices, and each slice goes through the
// schedule's calls one after the other. Calls of different slices overlap, so that the levels work at the same time.
//
// A call of a slice starts when the one before it has ended, its data lie where it works, and it is its turn
// (StartOrder).
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/compose/slice_run.h"
#include "core/execute/compose/slices.h"
#include "core/execute/compose/staging.h"
#include "core/execute/stage.h"
#include "core/execute/stage_pool.h"

namespace roda::execute {

// How a call gets at data on a device.
enum class StepData : std::uint8_t {
  kOnStream,  // it works there, on the launch's stream
  kStaged,    // in host memory; the data are copied there and back
  kDirect,    // it works there, but not on the stream
};

class ComposedStage final : public Stage {
 public:
  struct Options {
    std::size_t slice_bytes = 1;  // equal on all ranks
    std::uint32_t launches = 1;   // that may be in flight on the groups at once; StageArgs::slot is below it
    std::vector<StepData> data;   // [stage of the plan] of data on a device; empty: it works in host memory
    // What works on a device's memory may prepare for the memory that the stage has there.
    std::vector<TransportGroup*> groups_on_device;
  };
  // `name`: for messages. `pools`: what runs the calls, by stage of the plan; null where this rank calls nothing.
  ComposedStage(std::string name, std::shared_ptr<const schedule::Schedule> schedule,
                const std::vector<StagePool*>& pools, Options options);

  std::uint64_t moves() const override;
  std::string describe() const override;

 private:
  // A stage of the plan, as this rank takes part in it.
  struct Part {
    const schedule::Step* copies = nullptr;  // before the call
    std::size_t copy_count = 0;
    const schedule::Step* step = nullptr;  // null: there is no call
    const schedule::Call* call = nullptr;
    StagePool* pool = nullptr;
  };
  // Where a slice, or all of the data, is: copied to where the call works, at the call, copied back.
  enum class Phase : std::uint8_t { kIdle, kDown, kCall, kUp };
  // A slice on its way.
  struct Slice {
    Slice(const schedule::Schedule& schedule, const SliceMap& map) : run(schedule, map) {}
    SliceRun run;
    std::size_t number = 0;
    std::size_t stage = 0;
    bool busy = false;
    Phase phase = Phase::kIdle;  // of its stage
    StageArgs args;              // of the call
    StageHandle handle;          // null: the call does not run
    Staging staging;
    Trace::Clock::time_point began;  // the call, where somebody asks
  };
  static std::vector<Part> lay_out(const schedule::Schedule& schedule, const std::vector<StagePool*>& pools,
                                   Part* tail);
  Status begin(const StageArgs& args) override;
  Status advance(bool* done) override;
  void abort_groups(const Status& cause) override;
  bool release() override;
  Status advance_slices();
  Status advance_call(std::uint32_t index, bool* done);
  // Slots of the stage's group that one launch may use. 0: calls need none.
  std::uint32_t slots_per_launch(const Part& part) const;
  bool needs_order(const Part& part) const;
  bool share_order(std::size_t a, std::size_t b) const;
  std::vector<std::vector<std::size_t>> rivals() const;
  bool is_beside_stream(std::size_t stage) const {
    return !options_.data.empty() && options_.data[stage] != StepData::kOnStream;
  }
  bool slot_is_free(std::uint32_t index) const;
  StageArgs call_args(std::uint32_t index) const;
  Status bring_down(std::uint32_t index);
  Status start_call(std::uint32_t index);
  Status end_call(Slice* slice);
  Status end_stage(Slice* slice);
  void tell_of_call(const Slice& slice) const;

  std::string name_;
  std::shared_ptr<const schedule::Schedule> schedule_;
  Options options_;
  SliceMap map_;
  Part tail_;                                   // copies after the last call
  std::vector<Part> parts_;                     // [stage of the plan]
  std::vector<std::unique_ptr<Slice>> slices_;  // in flight: slice k in slices_[k % size]
  StartOrder order_;
  Staging whole_;  // of data on a device for which all works in host memory
  bool is_staged_ = false;
  Phase phase_ = Phase::kIdle;
  StageArgs args_;  // in host memory, if it is staged
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::uint64_t moves_ = 0;  // of the calls that have ended, and one for each of them and for each wait for copies
};

}  // namespace roda::execute
