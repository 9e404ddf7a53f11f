#include "core/execute/compose/piece_composition.h"

#include <utility>

#include "core/execute/layout.h"

namespace roda::execute {

PieceComposition::PieceComposition(CompositionStep step, std::size_t piece_bytes) : piece_bytes_(piece_bytes) {
  steps_.push_back(std::move(step));
}

bool PieceComposition::is_cut() const {
  return args_.collective == RODA_ALLREDUCE || args_.collective == RODA_BROADCAST;
}

Status PieceComposition::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  element_ = roda_dtype_size(args.dtype);
  pieces_ = is_cut() ? pieces_of(args.count * element_, piece_bytes_) : 1;
  return {};
}

Status PieceComposition::fill(std::size_t piece, std::uint32_t /*lane*/, std::size_t /*step*/, StageArgs* args) {
  args->input = args_.input;
  args->output = args_.output;
  args->count = args_.count;
  args->send_counts = args_.send_counts;
  args->recv_counts = args_.recv_counts;
  args->max_count = args_.max_count;
  if (!is_cut()) return {};
  const std::size_t first = balanced_begin(args_.count, element_, pieces_, piece);
  args->count = balanced_begin(args_.count, element_, pieces_, piece + 1) - first;
  if (args_.input != nullptr) args->input = static_cast<const char*>(args_.input) + first * element_;
  args->output = static_cast<char*>(args_.output) + first * element_;
  return {};
}

}  // namespace roda::execute
