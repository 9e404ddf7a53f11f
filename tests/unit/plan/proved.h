// Plans in words, and proved: all ranks' programs, for a rooted collective with every root.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "algorithms/schedule/verifier.h"

namespace roda::plan {

// "hierarchical: reducescatter(host, ring); ..."
inline std::string to_text(const Plan& plan, const Grid& grid) {
  std::string text = plan.name + ":";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += std::string(s == 0 ? " " : "; ") + schedule::collective_name(stage.collective) + "(" +
            grid.names()[at(stage.axis)] + ", " + stage.algorithm + ")";
  }
  return text;
}

inline std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid) {
  const std::int32_t roots = schedule::is(plan.collective, RODA_ROOTED) ? grid.ranks() : 1;
  for (std::int32_t root = 0; root < roots; ++root) {
    const Compiler compiler(plan, grid, root);
    std::vector<schedule::Program> ranks(at(grid.ranks()));
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      if (auto wrong = compiler.compile(rank, &ranks[at(rank)]))
        return schedule::Violation{plan.name, rank, -1, -1, *wrong};
    }
    if (auto violation = schedule::verify(ranks)) return violation;
  }
  return std::nullopt;
}

}  // namespace roda::plan
