// What a chunk holds, symbolically: an expression over the ranks' contributions. Sums commute but do not associate, as
// floating point does, so equal values mean equal bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule::verifier {

using Value = std::int32_t;
inline constexpr Value kUndefined = -1;

class Expressions {
 public:
  explicit Expressions(int size) : size_(size) {}

  // What rank `rank` contributes to piece `piece` of the data (see piece_at). Equal arguments, equal value.
  Value contribution(std::int64_t piece, int rank);

  // a (op) b; kUndefined with *error when the two are of different pieces or share a contribution.
  Value combine(Value a, Value b, std::string* error);

  std::int64_t piece(Value value) const { return nodes_[static_cast<std::size_t>(value)].piece; }
  int contributions(Value value) const;

 private:
  struct Node {
    std::int64_t piece;
    std::vector<std::uint64_t> ranks;  // a bit for each
  };
  Value add(Node node);

  int size_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Value> leaves_;
  std::unordered_map<std::uint64_t, Value> sums_;
};

// What the chunk holds at the start.
Value initial_value(const Schedule& schedule, Space space, int chunk, Expressions& expressions);

// Why `value` is not what Output's chunk must hold at the end; nullopt if it is.
std::optional<std::string> wrong_result(const Schedule& schedule, int chunk, Value value, Expressions& expressions);

}  // namespace roda::schedule::verifier
