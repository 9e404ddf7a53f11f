// One collective over one group, cut into pieces that overlap: a tensor whose data are staged is copied, travels and is
// copied back at the same time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/execute/compose/composition.h"

namespace roda::execute {

// Allreduces and broadcasts are cut; the others, whose blocks belong to ranks, are one piece.
class PieceComposition final : public Composition {
 public:
  // `piece_bytes`: equal on all ranks.
  PieceComposition(CompositionStep step, std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  Status fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  bool is_cut() const;

  std::size_t piece_bytes_;
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
};

}  // namespace roda::execute
