// An allreduce as a plan says: reduce-scatters cut each piece of the tensor into shares, allgathers bring them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/plan/plan.h"
#include "core/execute/buffer.h"
#include "core/execute/compose/composition.h"
#include "core/execute/device_queue.h"

namespace roda::execute {

class ShareComposition final : public Composition {
 public:
  // `self`: this rank in the grid. `pools`: one for each stage, null where this rank is alone or sits out.
  // `piece_bytes`: equal on all ranks.
  ShareComposition(const plan::Plan& plan, const plan::Grid& grid, int self, const std::vector<StagePool*>& pools,
                   std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  Status fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  // Where the data of one depth of scattering lies.
  struct Place {
    const char* input = nullptr;
    char* output = nullptr;
  };
  struct LaneData {
    std::vector<Buffer> shards;                  // [depth - 1]
    std::vector<DeviceMemory> shards_on_device;  // likewise, of data on a device
    std::vector<std::size_t> counts;             // elements of the share that each member of the step's group keeps
    std::vector<Place> places;                   // [depth]
  };
  std::size_t begin_of(std::size_t step, std::size_t share) const;
  void replay(std::size_t steps, LaneData* lane);
  Place shard(std::size_t step, LaneData* lane);
  Status reserve_shards();
  void count_shares(std::size_t step, LaneData* lane) const;

  plan::Plan plan_;
  plan::Parts all_parts_;
  std::vector<plan::Part> parts_;  // [step] this rank's
  std::size_t piece_bytes_;
  std::vector<LaneData> lanes_;
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
  std::size_t piece_count_ = 0;  // elements of the piece that is being filled
};

}  // namespace roda::execute
