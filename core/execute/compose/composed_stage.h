// Runs a composition: pieces in lanes, each piece step after step.
//
// A step of a piece starts when the step before it has ended and it is its turn (turns.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/compose/composition.h"
#include "core/execute/compose/turns.h"
#include "core/execute/stage.h"
#include "core/execute/staged_stage.h"

namespace roda::execute {

class ComposedStage final : public Stage {
 public:
  // `name`: for messages. `launches`: how many launches may be in flight on the groups at once; StageArgs::slot is
  // below it.
  // `data`: [step] of data on a device; empty: they lie in host memory.
  ComposedStage(std::string name, std::unique_ptr<Composition> composition, std::uint32_t launches,
                std::vector<StepData> data = {});

  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  void abort(const Status& cause) override;
  std::uint64_t moves() const override;
  std::string describe() const override;

 private:
  // A piece on its way.
  struct Lane {
    std::size_t piece = 0;
    std::size_t step = 0;
    bool busy = false;
    StageHandle stage;  // null: the step has not started
    StagedStage staging;
    Stage* runs = nullptr;  // the stage, or the staging around it
  };
  Status advance(bool* moved);
  Status advance(std::uint32_t index, bool* moved);
  // Slots of the step's group that one launch may use. 0: stages need none.
  std::uint32_t slots_per_launch(const CompositionStep& step) const;
  bool needs_order(const CompositionStep& step) const;
  bool share_order(std::size_t a, std::size_t b) const;
  std::vector<std::vector<std::size_t>> rivals() const;
  bool is_beside_stream(std::size_t step) const { return !data_.empty() && data_[step] != StepData::kOnStream; }
  bool is_first_outside(std::uint32_t index) const;
  bool slot_is_free(std::uint32_t index) const;
  Status start_step(std::uint32_t index);
  Status end_step(Lane* lane);
  Status end_failed(bool* done);
  void abort_groups(const Status& cause);

  std::string name_;
  std::unique_ptr<Composition> composition_;
  std::uint32_t launches_;
  std::vector<StepData> data_;  // [step] empty: host memory
  std::vector<Lane> lanes_;
  Turns turns_;
  StageArgs args_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  bool running_ = false;
  std::uint64_t moves_ = 0;  // of the stages that have ended, and one for each of them
  Status failure_;
};

}  // namespace roda::execute
