// Makes stages and keeps them for reuse: none is built, and nothing allocated, for a combination that ran before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/group.h"
#include "core/execute/options.h"
#include "core/execute/stage.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Returns the stage to whoever keeps it. A stage is released only when done or never started.
struct StageRelease {
  bool* busy = nullptr;
  void operator()(Stage* /*stage*/) const { *busy = false; }
};
using StageHandle = std::unique_ptr<Stage, StageRelease>;

// The stages of one group. Outlives its handles; the group outlives it. Threads: the holder of the engine's baton.
class StagePool {
 public:
  StagePool(TransportGroup& group, const ExecuteOptions& options);
  ~StagePool();

  // `algorithm`: "native" or a name from schedule::algorithms(). Fails with RODA_ERR_UNSUPPORTED when the transport
  // lacks what the algorithm needs, or the algorithm refuses the size. `root`: of a broadcast; of an Adasum as in
  // schedule::Schedule; else it does not matter.
  Status acquire(int collective, const std::string& algorithm, int root, StageHandle* stage);

  TransportGroup& group() { return group_; }
  const ExecuteOptions& options() const { return options_; }

 private:
  struct Entry;
  Status make(int collective, const std::string& algorithm, int root, std::unique_ptr<Stage>* stage);

  TransportGroup& group_;
  ExecuteOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace roda::execute
