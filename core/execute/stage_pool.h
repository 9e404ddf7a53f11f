// Makes stages and keeps them for reuse: none is built, and nothing allocated, for a combination that ran before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/group.h"
#include "core/execute/stage.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Sizes in bytes. All but test_bytes and reduce_bytes must be equal on all ranks of a group.
struct ExecuteOptions {
  std::size_t slice_bytes = 1 << 20;      // of the whole tensor: messages are pipelined in slices of it
  std::uint32_t slices_in_flight = 4;     // W
  std::size_t segment_bytes = 256 << 10;  // longest message; longer ones go in parts
  std::size_t block_bytes = 256 << 10;    // staging block per rank (one-sided on memory that peers can't reach)
  std::size_t get_bytes = 256 << 10;      // longest transport get or put
  std::size_t test_bytes = 1 << 20;       // data moved by one test()
  std::size_t reduce_bytes = 32 << 10;    // tile of multi-source reductions, kept in the cache
};

class StagePool;

// Returns the stage to its pool. A stage is released only when done or never started.
struct StageRelease {
  StagePool* pool = nullptr;
  std::uint32_t entry = 0;
  void operator()(Stage* stage) const;
};
using StageHandle = std::unique_ptr<Stage, StageRelease>;

// The stages of one group. Outlives its handles; the group outlives it. Threads: the holder of the engine's baton.
class StagePool {
 public:
  StagePool(TransportGroup& group, const ExecuteOptions& options);
  ~StagePool();

  // `algorithm`: "native" or a name from schedule::algorithms(). Fails with RODA_ERR_UNSUPPORTED when the transport
  // lacks what the algorithm needs, or the algorithm refuses the size. `root` matters to broadcast only.
  Status acquire(int collective, const std::string& algorithm, int root, StageHandle* stage);

  TransportGroup& group() { return group_; }
  const ExecuteOptions& options() const { return options_; }

 private:
  friend struct StageRelease;
  struct Entry;
  TransportGroup& group_;
  ExecuteOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace roda::execute
