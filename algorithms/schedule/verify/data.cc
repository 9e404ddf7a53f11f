#include "algorithms/schedule/verify/data.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace roda::schedule::verifier {
namespace {

std::uint64_t pair_key(std::uint64_t high, std::uint64_t low) { return high << 32 | (low & 0xffffffffu); }

int first_common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (std::size_t word = 0; word < a.size(); ++word) {
    if (const std::uint64_t both = a[word] & b[word]) return static_cast<int>(word * 64) + std::countr_zero(both);
  }
  return -1;
}

int count(const std::vector<std::uint64_t>& bits) {
  return std::accumulate(bits.begin(), bits.end(), 0,
                         [](int sum, std::uint64_t word) { return sum + std::popcount(word); });
}

void unite(const std::vector<std::uint64_t>& more, std::vector<std::uint64_t>* bits) {
  for (std::size_t word = 0; word < bits->size(); ++word) (*bits)[word] |= more[word];
}

constexpr std::int64_t kProducts = -1;  // the piece of products

// Alltoall's pieces are (from, to); all others' are chunks.
std::int64_t piece_between(int from, int to, int size) { return static_cast<std::int64_t>(from) * size + to; }

struct Expected {
  std::int64_t piece;
  int from;  // -1: the reduction of all ranks' contributions
};

Expected expected_at(const Outline& of, int chunk) {
  const roda_collective_entry& data = entry_of(of.collective);
  if (is(of.collective, RODA_COMBINES)) return {data.output == RODA_OWN_PART ? of.rank : chunk, -1};
  if (is_between_pairs(of.collective)) return {piece_between(chunk, of.rank, of.size), chunk};
  return {chunk, data.output == RODA_ALL_PARTS ? chunk : of.root};
}

}  // namespace

Value Expressions::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Value>(nodes_.size() - 1);
}

Value Expressions::contribution(std::int64_t piece, int rank) {
  const std::uint64_t key = pair_key(static_cast<std::uint64_t>(piece), static_cast<std::uint64_t>(rank));
  if (const auto found = leaves_.find(key); found != leaves_.end()) return found->second;
  Node node{piece, std::vector<std::uint64_t>(static_cast<std::size_t>(size_ + 63) / 64)};
  node.parts[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  return leaves_[key] = add(std::move(node));
}

Value Expressions::combine(Value a, Value b) {
  const auto [low, high] = std::minmax(a, b);
  const std::uint64_t key = pair_key(static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high));
  if (const auto found = sums_.find(key); found != sums_.end()) return found->second;
  const Node& left = nodes_[static_cast<std::size_t>(a)];
  const Node& right = nodes_[static_cast<std::size_t>(b)];
  if (left.piece != right.piece) {
    complain("combines chunk " + std::to_string(left.piece) + " with chunk " + std::to_string(right.piece));
  }
  const bool are_products = left.piece == kProducts;
  if (are_products ? left.vector != right.vector : left.vector >= 0 || right.vector >= 0) {
    complain(are_products ? "adds products of different vectors" : "adds up what Adasum has combined");
  }
  if (const int part = first_common(left.parts, right.parts); part >= 0) {
    complain((are_products ? "counts the products of chunk " : "counts the contribution of rank ") +
             std::to_string(part) + " twice");
  }
  Node sum = left;
  unite(right.parts, &sum.parts);
  sum.format = RODA_WIRE_NONE;
  sum.roundings = std::max(left.roundings, right.roundings);
  return sums_[key] = add(std::move(sum));
}

Value Expressions::rounded(Value value, std::int32_t format, int rank) {
  if (node(value).format == format) return value;
  const int draw = roda_wire_formats[format].is_stochastic != 0 ? rank : -1;
  const auto [found, is_new] = rounded_.try_emplace({value, format, draw}, kUndefined);
  if (!is_new) return found->second;
  Node made = node(value);
  made.format = format;
  ++made.roundings;
  return found->second = add(std::move(made));
}

bool Expressions::is_rounded(Value value, Value exact) const {
  const Node &a = node(value), &b = node(exact);
  return value == exact || (a.roundings > 0 && a.vector < 0 && a.piece == b.piece && a.parts == b.parts);
}

int Expressions::number_of(Kind kind, const Bits& of) {
  return vectors_.emplace(std::pair(kind, of), static_cast<int>(vectors_.size())).first->second;
}

int Expressions::pair_of(int first, int second) {
  return number_of(Kind::kPair, {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(second)});
}

int Expressions::vector_of(const Node& node) {
  return node.vector >= 0 ? node.vector : number_of(Kind::kSum, node.parts);
}

std::optional<int> Expressions::vector_of(const std::vector<Value>& chunks) {
  const int vector = vector_of(node(chunks.front()));
  const bool is_one = std::ranges::all_of(chunks, [&](Value v) { return vector_of(node(v)) == vector; });
  return is_one ? std::optional(vector) : std::nullopt;
}

Value Expressions::products(const std::vector<Value>& first, const std::vector<Value>& second) {
  const auto a = vector_of(first), b = vector_of(second);
  if (!a || !b) complain("multiplies chunks of several vectors");
  Node made{kProducts, Bits(static_cast<std::size_t>(chunks_ + 63) / 64), pair_of(*a, *b)};
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int64_t piece = node(first[i]).piece;
    if (piece != node(second[i]).piece) {
      complain("multiplies chunk " + std::to_string(piece) + " with chunk " + std::to_string(node(second[i]).piece));
    }
    made.parts[static_cast<std::size_t>(piece) / 64] |= std::uint64_t{1} << (piece % 64);
  }
  return add(std::move(made));
}

Value Expressions::weigh(Value first, Value second, Value products) {
  const auto known = weighed_.find({first, second, products});
  if (known != weighed_.end()) return known->second;
  const Node &a = node(first), &b = node(second), &by = node(products);
  if (a.piece != b.piece || by.piece != kProducts || by.vector != pair_of(vector_of(a), vector_of(b))) {
    complain("weighs by products that are not of these two");
  }
  if (count(by.parts) != chunks_) {
    complain("weighs by products of " + std::to_string(count(by.parts)) + " of " + std::to_string(chunks_) + " chunks");
  }
  if (summed(first) != summed(second) || first_common(a.parts, b.parts) >= 0) {
    complain("weighs what was summed over other numbers of ranks, or over some of the same ones");
  }
  Node made{a.piece, a.parts, number_of(Kind::kWeighed, {static_cast<std::uint64_t>(products)}), summed(first)};
  unite(b.parts, &made.parts);
  return weighed_[{first, second, products}] = add(std::move(made));
}

int Expressions::contributions(Value value) const { return count(node(value).parts); }
int Expressions::summed(Value value) const {
  return node(value).summed > 0 ? node(value).summed : contributions(value);
}

Value initial_value(const Outline& of, int chunk, Expressions& expressions) {
  const int rank = of.rank;
  if (is_between_pairs(of.collective)) {
    return expressions.contribution(piece_between(rank, chunk, of.size), rank);
  }
  if (entry_of(of.collective).input == RODA_OWN_PART) return expressions.contribution(rank, rank);
  const bool has_data = is(of.collective, RODA_COMBINES) || rank == of.root;
  return has_data ? expressions.contribution(chunk, rank) : kUndefined;
}

void check_result(const Outline& of, int chunk, Value value, Expressions& expressions) {
  const std::string name = "output[" + std::to_string(chunk) + "] ";
  const Expected expected = expected_at(of, chunk);
  if (value == kUndefined) complain(name + "is undefined at the end");
  const bool is_of_one = expected.from >= 0;
  if (is_of_one ? !expressions.is_rounded(value, expressions.contribution(expected.piece, expected.from))
                : expressions.piece(value) != expected.piece) {
    complain(name + "ends with another chunk's data");
  }
  if (is_of_one) return;
  const int count = expressions.contributions(value);
  if (count != of.size) {
    complain(name + "ends with " + std::to_string(count) + " of " + std::to_string(of.size) + " contributions");
  }
  const int summed = expressions.summed(value);
  if (of.collective == Collective::kAdasum && summed != std::max(of.root, 1)) {
    complain(name + "ends as the Adasum of sums over " + std::to_string(summed) + " ranks each");
  }
}

}  // namespace roda::schedule::verifier
