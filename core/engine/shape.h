// How the members of a process set lie on hosts: a table with one row a host and columns of equal index.
//
// Pure; the same on every member but for `self`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace roda::engine {

// Which members of a set talk: all, those of this rank's host, or those of its index on all hosts.
enum class Scope : std::uint8_t { kAll, kRow, kColumn };

class Shape {
 public:
  Shape() = default;
  // `host_of`: each member's host, any numbers. `self`: this rank among the members; -1: not a member.
  Shape(const std::vector<int>& host_of, int self);

  int size() const { return static_cast<int>(row_of_.size()); }
  int rows() const { return static_cast<int>(rows_.size()); }
  bool same_host() const { return rows() <= 1; }
  // Members of the smallest and the largest row: columns below the first reach every host.
  int columns() const { return least_; }
  int longest() const { return most_; }
  // Of this rank.
  int row() const { return row_of_[static_cast<std::size_t>(self_)]; }
  int index() const { return index_of(self_); }
  int row_size() const { return static_cast<int>(rows_[static_cast<std::size_t>(row())].size()); }
  // Of any member.
  int row_of(int member) const { return row_of_[static_cast<std::size_t>(member)]; }
  int index_of(int member) const { return index_of_[static_cast<std::size_t>(member)]; }

  // Members in the scope, in the order of their ranks there. kColumn: only for index() < columns().
  std::vector<int> members(Scope scope) const;
  // [row][index]: members.
  const std::vector<std::vector<int>>& table() const { return rows_; }
  // Tells the groups of a set apart.
  std::string suffix(Scope scope) const;

 private:
  int self_ = -1;
  int least_ = 1;
  int most_ = 1;
  std::vector<int> row_of_;    // rows are numbered by their first member
  std::vector<int> index_of_;  // in the row
  std::vector<std::vector<int>> rows_;
};

}  // namespace roda::engine
