// Allgather, reduce-scatter and alltoall as a plan says: blocks of the ranks travel stage by stage (plan/routes.h),
// piece by piece: piece k holds the k-th part of every block.
//
// Before a stage the blocks are brought into the order in which it sends them, unless they lie so already; in the end
// they are brought to their places in the output. On a device all that is put on the launch's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/plan/routes.h"
#include "core/execute/buffer.h"
#include "core/execute/compose/composition.h"
#include "core/execute/device_queue.h"

namespace roda::execute {

// More ranks are not composed: the routes of all of them would take too long to find.
inline constexpr int kMostRoutedRanks = 1024;

class BlockComposition final : public Composition {
 public:
  // `self`, `pools`, `piece_bytes`: as in ShareComposition. The plan is right (plan::verify), and has routes.
  // Alltoall: StageArgs::all_counts must be given.
  BlockComposition(const plan::Plan& plan, const plan::Grid& grid, int self, const std::vector<StagePool*>& pools,
                   std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  Status fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;
  Status finish(std::size_t piece, std::uint32_t lane) override;

 private:
  using Blocks = std::vector<plan::Block>;
  // In host memory it grows when it is asked for; on a device it is as large as it may get before the launch begins.
  struct Room {
    Buffer host;
    DeviceMemory on_device;
  };
  struct LaneData {
    Room packed;
    Room received[2];  // turn t fills number t % 2, and reads the other
    std::vector<std::size_t> send_counts, recv_counts;
    std::vector<std::size_t> begins;    // bytes before each block in what is read
    std::vector<roda_pack_item> items;  // copies that are to be made
  };
  struct Step {
    plan::Route route;
    std::size_t before = 0;                // the last step that this rank ran before, plus 1; 0: none, it has its input
    std::size_t turn = 0;                  // steps that this rank runs before
    bool in_order = false;                 // what that left lies as this step sends it
    std::vector<std::uint32_t> positions;  // [route.in] otherwise: where each block lies in what that left
  };
  std::size_t length(const plan::Block& block) const;  // elements of the whole block
  std::size_t part_begin(const plan::Block& block, std::size_t piece) const;
  std::size_t part_bytes(const plan::Block& block, std::size_t piece) const;
  std::size_t bytes_of(const Blocks& blocks, std::size_t piece) const;
  const Blocks& held_after(std::size_t ran) const { return ran == 0 ? input_ : routed_[ran - 1].route.out; }
  Status prepare_input(std::size_t piece, LaneData* lane, std::size_t step, const void** input);
  Status pack(std::size_t piece, const Step& step, LaneData* lane, char* to);
  DeviceQueue queue() const { return args_.queue == nullptr ? DeviceQueue() : *args_.queue; }
  char* reserve(Room* room, std::size_t bytes) const;
  Status reserve_on_device();
  std::size_t most_bytes_of(const Blocks& blocks) const;
  void lay_out(const Blocks& blocks, std::vector<std::size_t>* begins) const;
  void count(std::size_t piece, const Blocks& blocks, const std::vector<std::int32_t>& ends,
             std::vector<std::size_t>* counts) const;

  schedule::Collective collective_;
  int self_;
  std::size_t ranks_;
  std::size_t piece_bytes_;
  std::vector<Step> routed_;                    // [step]
  std::size_t last_ran_ = 0;                    // number of the last step that this rank runs, plus 1
  std::size_t turns_ = 0;                       // steps that it runs
  Blocks input_, output_;                       // as the user's buffers hold them
  std::vector<std::uint32_t> final_positions_;  // [output_] where each lies in what the last step left
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
  std::size_t longest_ = 0;                                // elements of the longest block of all
  std::vector<std::size_t> input_begins_, output_begins_;  // elements before each block in the user's buffers
  std::vector<LaneData> lanes_;
};

}  // namespace roda::execute
