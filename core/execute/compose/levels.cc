#include "core/execute/compose/levels.h"

#include <algorithm>

#include "core/execute/layout.h"

namespace roda::execute {
namespace {

std::size_t pieces_of(std::size_t count, std::size_t element, std::size_t piece_bytes) {
  return (count * element + piece_bytes - 1) / piece_bytes;
}

}  // namespace

RowColumnAllreduce::RowColumnAllreduce(const Levels& levels, const Algorithms& algorithms, std::size_t piece_bytes)
    : levels_(levels), piece_bytes_(piece_bytes) {
  steps_ = {{levels.row, RODA_REDUCESCATTER, algorithms.reduce_scatter},
            {levels.column, RODA_ALLREDUCE, algorithms.allreduce},
            {levels.row, RODA_ALLGATHER, algorithms.allgather}};
}

Status RowColumnAllreduce::begin(const StageArgs& args, std::uint32_t lanes) {
  input_ = static_cast<const char*>(args.input);
  output_ = static_cast<char*>(args.output);
  count_ = args.count;
  element_ = roda_dtype_size(args.dtype);
  pieces_ = pieces_of(count_, element_, piece_bytes_);
  lanes_.resize(lanes);
  for (LaneData& lane : lanes_) lane.counts.assign(static_cast<std::size_t>(levels_.row_size), 0);
  return {};
}

void RowColumnAllreduce::fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) {
  LaneData& data = lanes_[lane];
  const std::size_t first = balanced_begin(count_, element_, pieces_, piece);
  const std::size_t count = balanced_begin(count_, element_, pieces_, piece + 1) - first;
  const auto columns = static_cast<std::size_t>(levels_.columns);
  for (std::size_t c = 0; c < columns; ++c) {
    data.counts[c] = balanced_begin(count, element_, columns, c + 1) - balanced_begin(count, element_, columns, c);
  }
  const std::size_t own = data.counts[static_cast<std::size_t>(levels_.index)];
  // A host with one rank has no row to go through: its column works on the piece where it lies.
  const bool alone = levels_.row_size == 1;
  char* shard = alone ? output_ + first * element_ : data.shard.reserve(std::max(own * element_, kLine));
  if (step == 0) {
    args->input = input_ + first * element_;
    args->output = shard;
    args->count = count;
    args->recv_counts = data.counts.data();
  } else if (step == 1) {
    args->input = alone ? input_ + first * element_ : shard;
    args->output = shard;
    args->count = own;
  } else {
    args->input = shard;
    args->output = output_ + first * element_;
    args->recv_counts = data.counts.data();
  }
}

RowThenColumnAllreduce::RowThenColumnAllreduce(const Levels& levels, const std::string& row_algorithm,
                                               const std::string& column_algorithm)
    : levels_(levels) {
  steps_ = {{levels.row, RODA_ALLREDUCE, row_algorithm}, {levels.column, RODA_ALLREDUCE, column_algorithm}};
}

Status RowThenColumnAllreduce::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  return {};
}

void RowThenColumnAllreduce::fill(std::size_t /*piece*/, std::uint32_t /*lane*/, std::size_t step, StageArgs* args) {
  args->input = step == 0 || levels_.row == nullptr ? args_.input : args_.output;
  args->output = args_.output;
  args->count = args_.count;
}

ColumnThenRowBroadcast::ColumnThenRowBroadcast(const Levels& levels, int root_index, int root_host,
                                               const std::string& column_algorithm, const std::string& row_algorithm,
                                               std::size_t piece_bytes)
    : piece_bytes_(piece_bytes) {
  steps_ = {{levels.index == root_index ? levels.column : nullptr, RODA_BROADCAST, column_algorithm, root_host},
            {levels.row, RODA_BROADCAST, row_algorithm, root_index}};
}

Status ColumnThenRowBroadcast::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  element_ = roda_dtype_size(args.dtype);
  pieces_ = pieces_of(args.count, element_, piece_bytes_);
  return {};
}

void ColumnThenRowBroadcast::fill(std::size_t piece, std::uint32_t /*lane*/, std::size_t step, StageArgs* args) {
  const std::size_t first = balanced_begin(args_.count, element_, pieces_, piece);
  args->count = balanced_begin(args_.count, element_, pieces_, piece + 1) - first;
  args->output = static_cast<char*>(args_.output) + first * element_;
  // The first step that the root takes part in brings its input to its output.
  const bool has_data = steps_[0].pool == nullptr || step == 0;
  if (args_.input != nullptr && has_data) args->input = static_cast<const char*>(args_.input) + first * element_;
}

}  // namespace roda::execute
