// One slice of a composed schedule's data on its way: the memory of its regions, its copies, and what its calls work
// on.
//
// On a device copies are put on the launch's stream. Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/execute/compose/slices.h"
#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

class SliceRun {
 public:
  // Both outlive it.
  SliceRun(const schedule::Schedule& schedule, const SliceMap& map);

  // Before the slices of a launch, which `args` lives for: memory for any of them. On a device the groups' libraries
  // may prepare for it.
  Status reserve(const StageArgs& args, const std::vector<TransportGroup*>& groups);
  // Takes a slice on.
  void begin(std::size_t slice);
  // A run of copies of the schedule.
  Status copy(const schedule::Step* steps, std::size_t count);
  // Fills what the call works on: input, output, counts. The counts live until the next call.
  Status prepare(const schedule::Call& call, const schedule::Step& step, StageArgs* args);
  // The call has ended.
  Status finish(const schedule::Step& step);

 private:
  DeviceQueue queue() const { return args_.queue == nullptr ? DeviceQueue() : *args_.queue; }
  Status reserve(WorkMemory* buffer, std::size_t bytes, const std::vector<TransportGroup*>& groups) const;
  std::size_t most_bytes(const schedule::Range& range) const;
  bool lies_together(const schedule::Range& range) const {
    return range.space == schedule::Space::kScratch || map_.is_contiguous(range);
  }
  char* address(schedule::Space space, std::int32_t chunk) const;
  std::size_t bytes(schedule::Space space, std::int32_t chunk) const;
  void add_items(const schedule::Range& user, std::size_t offset);
  void count(schedule::Space space, std::int32_t first, const std::vector<std::int32_t>& ends,
             std::vector<std::size_t>* counts) const;
  std::size_t elements(const schedule::Range& range) const;
  void find_tensors(const schedule::Range& share, StageArgs* args);

  const schedule::Schedule& schedule_;
  const SliceMap& map_;
  StageArgs args_;
  std::size_t slice_ = 0;
  std::vector<WorkMemory> buffers_;
  WorkMemory gathered_, scattered_;          // in the place of chunks that do not lie side by side
  std::vector<std::int32_t> buffer_of_;      // [scratch chunk]
  std::vector<std::size_t> scratch_begins_;  // [scratch chunk] elements before it in its region
  std::vector<std::size_t> send_counts_, recv_counts_, tensor_begins_;
  std::vector<roda_pack_item> items_;  // copies that are to be made
};

}  // namespace roda::execute
