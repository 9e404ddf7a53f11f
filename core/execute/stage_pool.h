// Makes stages and keeps them for reuse: none is built, and nothing allocated, for a combination that ran before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/group.h"
#include "core/execute/stage.h"
#include "plugins/base/status.h"

namespace roda::execute {

// The stages of one group. Outlives its handles; the group outlives it. Threads: the holder of the engine's baton.
class StagePool {
 public:
  StagePool(TransportGroup& group, const ExecuteOptions& options) : group_(group), options_(options) {}

  // `algorithm`: of the collective; null: the transport's own. Fails with RODA_ERR_UNSUPPORTED when the transport lacks
  // what the algorithm needs, or the algorithm refuses the size. `root`: of a broadcast; of an Adasum as in
  // schedule::Schedule; else it does not matter.
  Status acquire(int collective, const schedule::Algorithm* algorithm, int root, StageHandle* stage);

  TransportGroup& group() { return group_; }

 private:
  // One collective, and the stages that run it.
  struct Entry {
    int collective;
    int root;
    const schedule::Algorithm* algorithm;
    std::shared_ptr<const schedule::Program> program;
    std::vector<std::unique_ptr<Stage>> stages;
  };
  Status compile(int collective, const schedule::Algorithm* algorithm, int root,
                 std::shared_ptr<const schedule::Program>* program) const;

  TransportGroup& group_;
  ExecuteOptions options_;
  std::vector<Entry> entries_;
};

// How a call gets at data on a device.
enum class StepData : std::uint8_t {
  kOnStream,  // it works there, on the launch's stream
  kStaged,    // in host memory; the data are copied there and back
  kDirect,    // it works there, but not on the stream
};

struct ComposedOptions {
  std::size_t slice_bytes = 1;  // equal on all ranks
  std::uint32_t launches = 1;   // that may be in flight on the groups at once; StageArgs::slot is below it
  std::vector<StepData> data;   // [stage of the plan] of data on a device; empty: it works in host memory
  // Groups that work on a device's memory, and may prepare for the memory that the stage has there.
  std::vector<TransportGroup*> groups_on_device;
};

// `name`: for messages. `pools`: what runs the calls, by stage of the plan; null where this rank calls nothing.
std::unique_ptr<Stage> make_composed_stage(std::string name, std::shared_ptr<const schedule::Schedule> schedule,
                                           const std::vector<StagePool*>& pools, ComposedOptions options);

}  // namespace roda::execute
