// Compositions of collectives whose data differ from rank to rank, over hosts that all have the same number of ranks.
//
// What two members of a column exchange travels between hosts once, and not once for each rank of a host.
#pragma once

#include <cstddef>
#include <vector>

#include "core/execute/buffer.h"
#include "core/execute/compose/levels.h"

namespace roda::execute {

// members[row][index]: the rank in the whole group, ascending in each row; rows of one length.
using MemberTable = std::vector<std::vector<int>>;

// Allgather: in each column, then in each row, then every contribution is brought to its place.
class ColumnThenRowAllgather final : public Composition {
 public:
  ColumnThenRowAllgather(const Levels& levels, MemberTable members, const std::string& column_algorithm,
                         const std::string& row_algorithm);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return 1; }
  void fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;
  void finish(std::size_t piece, std::uint32_t lane) override;

 private:
  Levels levels_;
  MemberTable members_;
  StageArgs args_;
  std::vector<std::size_t> column_counts_;  // [rows]
  std::vector<std::size_t> row_counts_;     // [row size]
  Buffer column_;
  Buffer all_;
};

// Reduce-scatter: the input is ordered by columns, then reduced in each row and in each column.
class RowThenColumnReduceScatter final : public Composition {
 public:
  RowThenColumnReduceScatter(const Levels& levels, MemberTable members, const std::string& row_algorithm,
                             const std::string& column_algorithm);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return 1; }
  void fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  Levels levels_;
  MemberTable members_;
  StageArgs args_;
  std::vector<std::size_t> column_counts_;
  std::vector<std::size_t> row_counts_;
  Buffer ordered_;
  Buffer column_;
};

}  // namespace roda::execute
