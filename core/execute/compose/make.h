// The composition that runs a plan.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "algorithms/plan/plan.h"
#include "core/execute/compose/composition.h"

namespace roda::execute {

// This rank's place in a plan, and what runs its stages.
struct Rendition {
  int self = 0;                   // in the grid
  int root = 0;                   // of a broadcast
  std::vector<StagePool*> pools;  // one for each stage; null where this rank is alone or sits out
  std::size_t piece_bytes = 1;    // equal on all ranks
};

// The plan has several stages and is right (plan::verify).
std::unique_ptr<Composition> make_composition(const plan::Plan& plan, const plan::Grid& grid,
                                              const Rendition& rendition);

// This rank's group in each stage, as ranks of the grid in their order; empty where it has nothing to do.
std::vector<std::vector<std::int32_t>> groups_of(const plan::Plan& plan, const plan::Grid& grid, int self, int root);

}  // namespace roda::execute
