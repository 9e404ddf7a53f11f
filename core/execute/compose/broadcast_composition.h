// A broadcast as a plan says: from unit to unit, then inside each, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/plan/plan.h"
#include "core/execute/compose/composition.h"

namespace roda::execute {

class BroadcastComposition final : public Composition {
 public:
  // `self`, `pools`, `piece_bytes`: as in ShareComposition. `root`: in the grid.
  BroadcastComposition(const plan::Plan& plan, const plan::Grid& grid, int self, int root,
                       const std::vector<StagePool*>& pools, std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  Status fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  std::size_t first_step_ = 0;  // that this rank takes part in
  std::size_t piece_bytes_;
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
};

}  // namespace roda::execute
