#include "algorithms/schedule/verify/data.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace roda::schedule::verifier {
namespace {

std::uint64_t pair_key(std::uint64_t high, std::uint64_t low) { return high << 32 | (low & 0xffffffffu); }

int first_common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (std::size_t word = 0; word < a.size(); ++word) {
    if (const std::uint64_t both = a[word] & b[word]) return static_cast<int>(word * 64) + std::countr_zero(both);
  }
  return -1;
}

// Alltoall's pieces are (from, to); all others' are chunks.
std::int64_t piece_between(int from, int to, int size) { return static_cast<std::int64_t>(from) * size + to; }

}  // namespace

Value Expressions::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Value>(nodes_.size() - 1);
}

Value Expressions::contribution(std::int64_t piece, int rank) {
  const std::uint64_t key = pair_key(static_cast<std::uint64_t>(piece), static_cast<std::uint64_t>(rank));
  if (const auto found = leaves_.find(key); found != leaves_.end()) return found->second;
  Node node{piece, std::vector<std::uint64_t>(static_cast<std::size_t>(size_ + 63) / 64)};
  node.ranks[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  return leaves_[key] = add(std::move(node));
}

Value Expressions::combine(Value a, Value b, std::string* error) {
  const auto [low, high] = std::minmax(a, b);
  const std::uint64_t key = pair_key(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high));
  if (const auto found = sums_.find(key); found != sums_.end()) return found->second;
  const Node& left = nodes_[static_cast<std::size_t>(a)];
  const Node& right = nodes_[static_cast<std::size_t>(b)];
  if (left.piece != right.piece) {
    *error = "combines chunk " + std::to_string(left.piece) + " with chunk " + std::to_string(right.piece);
    return kUndefined;
  }
  if (const int rank = first_common(left.ranks, right.ranks); rank >= 0) {
    *error = "counts the contribution of rank " + std::to_string(rank) + " twice";
    return kUndefined;
  }
  Node sum = left;
  for (std::size_t word = 0; word < sum.ranks.size(); ++word) sum.ranks[word] |= right.ranks[word];
  return sums_[key] = add(std::move(sum));
}

int Expressions::contributions(Value value) const {
  int count = 0;
  for (const std::uint64_t word : nodes_[static_cast<std::size_t>(value)].ranks) count += std::popcount(word);
  return count;
}

Value initial_value(const Schedule& schedule, Space space, int chunk, Expressions& expressions) {
  const int rank = schedule.rank;
  if (space == Space::kScratch) return kUndefined;
  const bool is_input = space == Space::kInput;
  switch (schedule.collective) {
    case Collective::kAllreduce:
      return is_input != schedule.in_place ? expressions.contribution(chunk, rank) : kUndefined;
    case Collective::kBroadcast:
      return is_input != schedule.in_place && rank == schedule.root ? expressions.contribution(chunk, rank)
                                                                    : kUndefined;
    case Collective::kAllgather:
      if (is_input == schedule.in_place) return kUndefined;
      return is_input || chunk == rank ? expressions.contribution(rank, rank) : kUndefined;
    case Collective::kAlltoall:
      return is_input ? expressions.contribution(piece_between(rank, chunk, schedule.size), rank) : kUndefined;
    default:
      return is_input ? expressions.contribution(chunk, rank) : kUndefined;
  }
}

namespace {

struct Expected {
  std::int64_t piece;
  int from;  // -1: the reduction of all ranks' contributions
};

Expected expected_at(const Schedule& schedule, int chunk) {
  switch (schedule.collective) {
    case Collective::kBroadcast:
      return {chunk, schedule.root};
    case Collective::kAllgather:
      return {chunk, chunk};
    case Collective::kAlltoall:
      return {piece_between(chunk, schedule.rank, schedule.size), chunk};
    case Collective::kReduceScatter:
      return {schedule.rank, -1};
    default:
      return {chunk, -1};
  }
}

}  // namespace

std::optional<std::string> wrong_result(const Schedule& schedule, int chunk, Value value, Expressions& expressions) {
  const std::string name = "output[" + std::to_string(chunk) + "] ";
  const Expected expected = expected_at(schedule, chunk);
  if (value == kUndefined) return name + "is undefined at the end";
  if (expected.from >= 0) {
    if (value == expressions.contribution(expected.piece, expected.from)) return std::nullopt;
    return name + "ends with another chunk's data";
  }
  if (expressions.piece(value) != expected.piece) return name + "ends with another chunk's data";
  const int count = expressions.contributions(value);
  if (count == schedule.size) return std::nullopt;
  return name + "ends with " + std::to_string(count) + " of " + std::to_string(schedule.size) + " contributions";
}

}  // namespace roda::schedule::verifier
