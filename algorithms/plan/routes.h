// The way of every block through a plan of allgather, reduce-scatter or alltoall.
//
//   allgather       block `from` starts on rank `from` and ends on every rank.
//   reduce-scatter  partial sums of block `to` are on every rank; the sum ends on rank `to`.
//   alltoall        block (from, to) starts on rank `from` and ends on rank `to`.
//
// Stages of the plan's own collective gather or reduce along their axis. Alltoall stages hand blocks over. Where groups
// along an axis differ in size, the smallest decides how many members of each, its width w, go on to other axes; the
// others hand their blocks to member (place mod w) first (allgather), or get theirs from it in the end (reduce-scatter,
// alltoall). So between two hosts a block travels once, whatever their sizes.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"

namespace roda::plan {

using schedule::Block;

// What one rank does in one stage: a collective among `members` over blocks that lie in these orders.
struct Route {
  schedule::Members members;  // null: the rank sits this stage out and keeps what it has
  std::int32_t index = 0;     // of the rank among them
  std::vector<Block> in;      // what the rank brings
  std::vector<std::int32_t>
      in_ends;             // [members] alltoall, reduce-scatter: the first blocks of `in` that are not for it
  std::vector<Block> out;  // what the rank ends with
  std::vector<std::int32_t> out_ends;  // [members] allgather, alltoall: the first blocks of `out` that are not from it
  std::int32_t most_blocks = 0;        // from one member to another, the largest number in the group
};

// Takes every block along its way and calls visit(stage, rank, route) for each rank, stage by stage. nullopt: every
// block ends where it must, once, and every sum has each rank's contribution once. Else what is wrong, with the stage.
// `visit` may be empty. The plan passes wrong_with. Work and memory grow with the square of the ranks.
using VisitRoute = std::function<void(std::size_t stage, std::int32_t rank, Route&& route)>;
std::optional<std::string> follow(const Plan& plan, const Grid& grid, const VisitRoute& visit);

}  // namespace roda::plan
