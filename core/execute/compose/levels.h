// The compositions over two levels: inside the hosts, and across them.
//
// Members of a group are seen as a table: one row a host, in it the host's members by rank; a column holds the members
// of one index in their rows. Rows may differ in length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/buffer.h"
#include "core/execute/compose/composition.h"

namespace roda::execute {

// Where this rank stands. Pools are null for groups of one, and where the rank is in no column.
struct Levels {
  StagePool* row = nullptr;     // the ranks of this host
  StagePool* column = nullptr;  // those of its index on all hosts; index < `columns`
  int row_size = 1;
  int index = 0;    // in the row
  int columns = 1;  // members of the smallest row: columns that reach every host
};

// Allreduce: reduce-scatter in the row to its first `columns` members, allreduce in each column, allgather in the row.
// Each byte crosses between two hosts once for each direction of a flat ring over hosts, over `columns` links at once.
class RowColumnAllreduce final : public Composition {
 public:
  struct Algorithms {
    std::string reduce_scatter, allreduce, allgather;
  };
  // `piece_bytes`: of a piece; equal on all ranks.
  RowColumnAllreduce(const Levels& levels, const Algorithms& algorithms, std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  void fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  struct LaneData {
    Buffer shard;
    std::vector<std::size_t> counts;  // [row_size] elements of the piece that each member keeps
  };
  Levels levels_;
  std::size_t piece_bytes_;
  std::vector<LaneData> lanes_;
  const char* input_ = nullptr;
  char* output_ = nullptr;
  std::size_t count_ = 0;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
};

// Allreduce of small data over rows of one length: allreduce in the row, then in every column. Each rank's data crosses
// between hosts, but it takes two steps instead of three.
class RowThenColumnAllreduce final : public Composition {
 public:
  RowThenColumnAllreduce(const Levels& levels, const std::string& row_algorithm, const std::string& column_algorithm);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return args_.count == 0 ? 0 : 1; }
  void fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  Levels levels_;
  StageArgs args_;
};

// Broadcast: in the root's column, then in every row. For roots whose column reaches every host.
class ColumnThenRowBroadcast final : public Composition {
 public:
  // `root_index`: the root's place in its row; `root_host`: its row.
  ColumnThenRowBroadcast(const Levels& levels, int root_index, int root_host, const std::string& column_algorithm,
                         const std::string& row_algorithm, std::size_t piece_bytes);
  Status begin(const StageArgs& args, std::uint32_t lanes) override;
  std::size_t pieces() const override { return pieces_; }
  void fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) override;

 private:
  std::size_t piece_bytes_;
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t pieces_ = 0;
};

}  // namespace roda::execute
