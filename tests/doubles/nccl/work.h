// One operation of the NCCL double, or several of one group call: what goes to whom, and what is done at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/doubles/nccl/board.h"

namespace roda::nccl_double {

class Work {
 public:
  explicit Work(Board& board) : board_(board) {}

  void all_reduce(const char* from, char* to, std::size_t count, int dtype, int op);
  void broadcast(const char* from, char* to, std::size_t bytes, int root);
  void reduce(const char* from, char* to, std::size_t count, int dtype, int op, int root);
  void all_gather(const char* from, char* to, std::size_t bytes);
  void reduce_scatter(const char* from, char* to, std::size_t count, int dtype, int op);
  void send(int peer, const char* from, std::size_t bytes);
  void receive(int peer, char* to, std::size_t bytes);

  // Input of the reductions.
  std::size_t bytes() const { return bytes_; }
  // Where it works, equal on all ranks; of what nobody registers: nothing.
  std::optional<std::uint64_t> place;

  // Tells the CUDA double what it reads and writes, and that it works on `communicator`.
  void announce(const void* communicator) const;
  // Until all is done; false: `given_up` said so before.
  bool run(const std::function<bool()>& given_up);

 private:
  struct Transfer {
    char* data;
    std::size_t left;
  };
  struct Use {
    const char* data;
    std::size_t bytes;
    bool writes;
  };
  char* scratch(std::size_t bytes);
  // Takes every rank's part and combines them in the order of the ranks, this rank's own being `own`.
  void gather_and_combine(const char* own, char* to, std::size_t count, int dtype, int op);
  bool move(std::map<int, std::deque<Transfer>>& lists, bool sends);

  Board& board_;
  std::size_t bytes_ = 0;
  std::map<int, std::deque<Transfer>> sends_, receives_;  // by peer, in order
  std::vector<Use> uses_;
  std::vector<std::unique_ptr<char[]>> scratch_;
  std::vector<std::function<void()>> finish_;
};

}  // namespace roda::nccl_double
