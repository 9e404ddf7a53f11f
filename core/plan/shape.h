// The grids that compositions of a process set are laid over: what follows from its members' levels in the topology.
//
// Pure; the same on every member but for `self`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/plan/grid.h"
#include "algorithms/topology/topology.h"

namespace roda::engine {

class Shape {
 public:
  Shape() : Shape({{topology::kHost, {0}}}, 0) {}
  // `levels`: of the members (levels_of). `self`: this rank among the members; -1: not a member.
  Shape(const std::vector<topology::Level>& levels, int self);

  int size() const { return nested_.ranks(); }
  int hosts() const { return static_cast<int>(table_.size()); }
  int self() const { return self_; }
  // Members by host, hosts in the order of their first members.
  const std::vector<std::vector<int>>& table() const { return table_; }
  // Of the levels; equal for equal levels.
  std::uint64_t hash() const { return hash_; }

  // What a composition of that name is laid over: the nested levels; for "between_hosts" hosts alone; for "torus" a
  // torus of hosts and the ranks in them (of two factors of the hosts, where each has one rank).
  const plan::Grid& grid(const std::string& composition) const {
    return composition == "torus" ? torus_ : composition == "between_hosts" ? by_host_ : nested_;
  }
  // Why there is no such grid; empty: there is one.
  std::string missing(const std::string& composition) const { return composition == "torus" ? no_torus_ : ""; }

 private:
  void lay_out_torus();

  int self_ = -1;
  std::uint64_t hash_ = 0;
  std::vector<std::vector<int>> table_;
  plan::Grid nested_;
  plan::Grid by_host_;
  plan::Grid torus_;
  std::string no_torus_;
};

}  // namespace roda::engine
