// Adasum over the messages of a group: every rank ends with the adaptive sum of all ranks' vectors, tensor by tensor.
//
// Vectors are combined in pairs along a binary tree; a pair's weights come from the tensor's dot product and norms,
// summed up in double over the ranks that hold its pieces (algorithms/adasum/halving.h has the paper). The weights of
// every tensor of a bucket are its own. The result is the same on all ranks, bit by bit: it is computed once, in
// pieces, and handed round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/adasum/halving.h"
#include "core/execute/adasum/transfer.h"
#include "core/execute/buffer.h"
#include "core/execute/options.h"
#include "core/execute/stage.h"

namespace roda::execute {

class AdasumStage final : public Stage {
 public:
  // Which rank of the group has which place in the tree. The first levels, over blocks of `averaged` places, take the
  // average instead: the ranks of a host, where Adasum works between hosts alone. Powers of two.
  struct Arrangement {
    std::vector<int> rank_at;  // [size] by place
    int averaged = 1;
    // Those levels are done: the ranks hold their averages, each the range that it would have by then, alone in its
    // output; and there the result is left.
    bool is_scattered = false;
  };
  // `group` and `options` outlive it.
  AdasumStage(TransportGroup& group, const ExecuteOptions& options, Arrangement arrangement);

  Status start(const StageArgs& args) override;
  Status test(bool* done) override;
  void abort(const Status& cause) override;
  std::uint64_t moves() const override { return moves_; }
  std::string describe() const override;

 private:
  // Of a level on the way down: halves are exchanged, products taken and summed, halves combined. Back up: kGather.
  enum class Phase : std::uint8_t { kCopy, kExchange, kDots, kSums, kCombine, kGather, kDone };

  Status advance();
  Status step(bool* waits);
  void enter(Phase phase);
  void begin_exchange();
  void begin_round();
  void begin_gather();
  void next_level();
  // A bounded amount of work on elements at the cursor; true when the range is done.
  bool copy_some();
  bool dots_some();
  bool combine_some();
  // The tensor at the cursor, and how many elements of it this step may work on.
  std::size_t next_run(std::size_t* tensor);
  bool averages() const { return level_ < averaged_levels_; }
  int rank_at(int position) const { return arrangement_.rank_at[static_cast<std::size_t>(position)]; }
  const adasum::Level& level() const { return levels_[level_]; }
  char* at(std::size_t element) const { return data_ + (element - origin_) * element_; }
  std::size_t first_level() const { return arrangement_.is_scattered ? averaged_levels_ : 0; }
  std::size_t tensors() const { return begins_.size() - 1; }
  Status end_failed(bool* done);

  TransportGroup& group_;
  const ExecuteOptions& options_;
  const Arrangement arrangement_;
  int position_ = 0;
  std::size_t averaged_levels_ = 0;
  Transfer transfer_;

  StageArgs args_;
  char* data_ = nullptr;    // the output
  std::size_t origin_ = 0;  // element that it begins with
  std::size_t element_ = 4;
  std::vector<std::size_t> begins_;  // [tensors + 1] elements
  std::vector<adasum::Level> levels_;
  std::uint64_t tag_ = 0;
  Buffer received_;                 // the peer's half
  std::vector<double> sums_;        // [3 * tensors]
  std::vector<double> peers_sums_;  // likewise

  Phase phase_ = Phase::kDone;
  std::size_t level_ = 0;
  int round_ = 1;           // kSums: distance of the peer
  std::size_t cursor_ = 0;  // element
  std::size_t tensor_ = 0;  // that the cursor is in
  std::size_t budget_ = 0;  // bytes that this test may still work on
  bool running_ = false;
  std::uint64_t moves_ = 0;
  Status failure_;
};

}  // namespace roda::execute
