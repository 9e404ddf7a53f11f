#include "core/execute/compose/broadcast_composition.h"

#include "core/execute/layout.h"

namespace roda::execute {

BroadcastComposition::BroadcastComposition(const plan::Plan& plan, const plan::Grid& grid, int self, int root,
                                           const std::vector<StagePool*>& pools, std::size_t piece_bytes)
    : piece_bytes_(piece_bytes) {
  const plan::Parts parts(plan, grid, root);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    steps_.push_back({pools[s], RODA_BROADCAST, plan.stages[s].algorithm, parts.of(s, self).root});
  }
  while (first_step_ < steps_.size() && steps_[first_step_].pool == nullptr) ++first_step_;
}

Status BroadcastComposition::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  element_ = roda_dtype_size(args.dtype);
  pieces_ = pieces_of(args.count * element_, piece_bytes_);
  return {};
}

Status BroadcastComposition::fill(std::size_t piece, std::uint32_t /*lane*/, std::size_t step, StageArgs* args) {
  const std::size_t first = balanced_begin(args_.count, element_, pieces_, piece);
  args->count = balanced_begin(args_.count, element_, pieces_, piece + 1) - first;
  args->output = static_cast<char*>(args_.output) + first * element_;
  // The first step that the root takes part in brings its input to its output.
  if (args_.input != nullptr && step == first_step_) {
    args->input = static_cast<const char*>(args_.input) + first * element_;
  }
  return {};
}

}  // namespace roda::execute
