// What a chunk holds, symbolically: an expression over the ranks' contributions. Sums commute but do not associate, as
// floating point does, so equal values mean equal bits. The products of Adasum are sums over the chunks that they are
// of. All chunks of a vector that Adasum makes were weighed by the same sums, of all its chunks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule::verifier {

using Value = std::int32_t;
inline constexpr Value kUndefined = -1;

// What is wrong, thrown and caught within the verifier: whoever knows the step puts it in its place.
struct Complaint {
  std::string text;
};
[[noreturn]] inline void complain(std::string text) { throw Complaint{std::move(text)}; }

class Expressions {
 public:
  // `chunks`: of a vector, for Adasum.
  Expressions(int size, int chunks) : size_(size), chunks_(chunks) {}

  // What rank `rank` contributes to piece `piece` of the data (see piece_at). Equal arguments, equal value.
  Value contribution(std::int64_t piece, int rank);

  // a (op) b; complains when the two are of different pieces or share a contribution. Of products: when they are of
  // different vectors, or share a chunk.
  Value combine(Value a, Value b);

  // The products of two vectors, given by the values of their chunks.
  Value products(const std::vector<Value>& first, const std::vector<Value>& second);
  // A chunk of the first vector weighed against the same chunk of the second. `products`: of these two vectors, all
  // chunks of them.
  Value weigh(Value first, Value second, Value products);

  // What a message of the value holds in the wire format, as rank `rank` of the group encodes it.
  Value rounded(Value value, std::int32_t format, int rank);
  // Whether it is the contribution, as it is or rounded.
  bool is_rounded(Value value, Value exact) const;
  // Of some contribution to the value, at most.
  int roundings(Value value) const { return node(value).roundings; }

  std::int64_t piece(Value value) const { return nodes_[static_cast<std::size_t>(value)].piece; }
  int contributions(Value value) const;
  // Contributions to each of the vectors that Adasum combined: as many to each.
  int summed(Value value) const;

 private:
  using Bits = std::vector<std::uint64_t>;
  struct Node {
    std::int64_t piece;
    Bits parts;       // a bit for each rank that contributed; of products: for each chunk
    int vector = -1;  // what it is a chunk of, where Adasum made that; of products: the two vectors
    int summed = 0;   // see there; 0: as many as it has parts
    std::int32_t format = RODA_WIRE_NONE;  // that it was rounded to last
    int roundings = 0;
  };
  const Node& node(Value value) const { return nodes_[static_cast<std::size_t>(value)]; }
  // Chunks of one vector have one number: sums of the same ranks, or what was weighed by the same products.
  int vector_of(const Node& node);
  std::optional<int> vector_of(const std::vector<Value>& chunks);
  // The kinds of a symbolic vector: a sum of ranks' vectors, a pair of vectors, or one weighed by products.
  enum class Kind : std::uint8_t { kSum, kPair, kWeighed };
  int number_of(Kind kind, const Bits& of);
  int pair_of(int first, int second);
  Value add(Node node);

  int size_;
  int chunks_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Value> leaves_;
  std::unordered_map<std::uint64_t, Value> sums_;
  std::map<std::pair<Kind, Bits>, int> vectors_;
  std::map<std::tuple<Value, Value, Value>, Value> weighed_;
  std::map<std::tuple<Value, std::int32_t, int>, Value> rounded_;
};

// Chunks with equal numbers have equal lengths, on whichever rank; nothing is known about others.
inline std::int64_t length_of(const Outline& of, Space space, int chunk) {
  if (space == Space::kProducts) return -1;
  const std::int64_t rank = of.rank;
  const std::int64_t size = of.size;
  if (space == Space::kScratch) {
    if (!of.scratch_is_own) return chunk % of.chunks;
    return is_between_pairs(of.collective) ? rank * size + rank : rank;
  }
  const bool is_input = space == Space::kInput;
  if (is_between_pairs(of.collective)) return is_input ? rank * size + chunk : chunk * size + rank;
  const int extent = is_input ? entry_of(of.collective).input : entry_of(of.collective).output;
  return extent == RODA_OWN_PART ? rank : chunk;
}

// The value that the chunk of Input holds at the start.
Value initial_value(const Outline& of, int chunk, Expressions& expressions);

// Complains where `value` is not what Output's chunk must hold at the end.
void check_result(const Outline& of, int chunk, Value value, Expressions& expressions);

}  // namespace roda::schedule::verifier
