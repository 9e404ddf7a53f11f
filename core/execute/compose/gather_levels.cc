#include "core/execute/compose/gather_levels.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace roda::execute {
namespace {

// What a member holds or gets, in elements.
std::size_t count_of(const StageArgs& args, int member) { return args.recv_counts[static_cast<std::size_t>(member)]; }

std::vector<std::size_t> counts_in_column(const StageArgs& args, const MemberTable& members, int index) {
  std::vector<std::size_t> counts;
  for (const auto& row : members) counts.push_back(count_of(args, row[static_cast<std::size_t>(index)]));
  return counts;
}

// Of each column as a whole.
std::vector<std::size_t> counts_of_columns(const StageArgs& args, const MemberTable& members) {
  std::vector<std::size_t> counts(members.front().size());
  for (const auto& row : members) {
    for (std::size_t index = 0; index < row.size(); ++index) counts[index] += count_of(args, row[index]);
  }
  return counts;
}

// Calls move(bytes before in rank order, bytes before in the order of columns, bytes) for every member's part.
template <typename Move>
void for_each_part(const StageArgs& args, const MemberTable& members, Move move) {
  const std::size_t element = roda_dtype_size(args.dtype);
  std::vector<std::size_t> places(members.size() * members.front().size() + 1);
  for (std::size_t m = 0; m + 1 < places.size(); ++m) places[m + 1] = places[m] + args.recv_counts[m] * element;
  std::size_t by_columns = 0;
  for (std::size_t index = 0; index < members.front().size(); ++index) {
    for (const auto& row : members) {
      const auto member = static_cast<std::size_t>(row[index]);
      const std::size_t bytes = places[member + 1] - places[member];
      if (bytes != 0) move(places[member], by_columns, bytes);
      by_columns += bytes;
    }
  }
}

std::size_t bytes_of(const StageArgs& args, const std::vector<std::size_t>& counts) {
  std::size_t elements = 0;
  for (const std::size_t count : counts) elements += count;
  return elements * roda_dtype_size(args.dtype);
}

}  // namespace

ColumnThenRowAllgather::ColumnThenRowAllgather(const Levels& levels, MemberTable members,
                                               const std::string& column_algorithm, const std::string& row_algorithm)
    : levels_(levels), members_(std::move(members)) {
  steps_ = {{levels.column, RODA_ALLGATHER, column_algorithm}, {levels.row, RODA_ALLGATHER, row_algorithm}};
}

Status ColumnThenRowAllgather::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  column_counts_ = counts_in_column(args, members_, levels_.index);
  row_counts_ = counts_of_columns(args, members_);
  column_.reserve(std::max(bytes_of(args, column_counts_), kLine));
  all_.reserve(std::max(bytes_of(args, row_counts_), kLine));
  return {};
}

void ColumnThenRowAllgather::fill(std::size_t /*piece*/, std::uint32_t /*lane*/, std::size_t step, StageArgs* args) {
  args->input = step == 0 ? args_.input : column_.reserve(0);
  args->output = step == 0 ? column_.reserve(0) : all_.reserve(0);
  args->recv_counts = step == 0 ? column_counts_.data() : row_counts_.data();
}

void ColumnThenRowAllgather::finish(std::size_t /*piece*/, std::uint32_t /*lane*/) {
  for_each_part(args_, members_, [this](std::size_t by_rank, std::size_t by_columns, std::size_t bytes) {
    std::memcpy(static_cast<char*>(args_.output) + by_rank, all_.reserve(0) + by_columns, bytes);
  });
}

RowThenColumnReduceScatter::RowThenColumnReduceScatter(const Levels& levels, MemberTable members,
                                                       const std::string& row_algorithm,
                                                       const std::string& column_algorithm)
    : levels_(levels), members_(std::move(members)) {
  steps_ = {{levels.row, RODA_REDUCESCATTER, row_algorithm}, {levels.column, RODA_REDUCESCATTER, column_algorithm}};
}

Status RowThenColumnReduceScatter::begin(const StageArgs& args, std::uint32_t /*lanes*/) {
  args_ = args;
  column_counts_ = counts_in_column(args, members_, levels_.index);
  row_counts_ = counts_of_columns(args, members_);
  column_.reserve(std::max(bytes_of(args, column_counts_), kLine));
  char* ordered = ordered_.reserve(std::max(bytes_of(args, row_counts_), kLine));
  for_each_part(args_, members_, [&](std::size_t by_rank, std::size_t by_columns, std::size_t bytes) {
    std::memcpy(ordered + by_columns, static_cast<const char*>(args_.input) + by_rank, bytes);
  });
  return {};
}

void RowThenColumnReduceScatter::fill(std::size_t /*piece*/, std::uint32_t /*lane*/, std::size_t step,
                                      StageArgs* args) {
  args->input = step == 0 ? ordered_.reserve(0) : column_.reserve(0);
  args->output = step == 0 ? column_.reserve(0) : args_.output;
  args->recv_counts = step == 0 ? row_counts_.data() : column_counts_.data();
  args->count = 0;
  for (std::size_t i = 0; i < (step == 0 ? row_counts_ : column_counts_).size(); ++i)
    args->count += args->recv_counts[i];
}

}  // namespace roda::execute
