#include "tests/doubles/nccl/work.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/doubles/cuda/double.h"
#include "tests/doubles/nccl/arithmetic.h"
#include "transports/nccl/library.h"

namespace roda::nccl_double {

char* Work::scratch(std::size_t bytes) {
  scratch_.push_back(std::make_unique<char[]>(bytes));
  return scratch_.back().get();
}

void Work::announce(const void* communicator) const {
  roda_cuda_double_take_turn(communicator, "NCCL");
  for (const Use& use : uses_) roda_cuda_double_touch(use.data, use.bytes, use.writes ? 1 : 0, "NCCL");
}

// To itself, too: that box is one like any other.
void Work::send(int peer, const char* from, std::size_t bytes) {
  uses_.push_back({from, bytes, false});
  sends_[peer].push_back({const_cast<char*>(from), bytes});
}

void Work::receive(int peer, char* to, std::size_t bytes) {
  uses_.push_back({to, bytes, true});
  receives_[peer].push_back({to, bytes});
}

void Work::gather_and_combine(const char* own, char* to, std::size_t count, int dtype, int op) {
  const std::size_t bytes = count * size_of(dtype);
  uses_.push_back({own, bytes, false});
  uses_.push_back({to, bytes, true});
  std::vector<const char*> parts;
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (rank == board_.rank()) {
      parts.push_back(own);
      continue;
    }
    char* part = scratch(bytes);
    receive(rank, part, bytes);
    parts.push_back(part);
  }
  char *sum = scratch(bytes), *scaled = scratch(bytes);
  // As NCCL: an average is the sum of what was divided.
  const auto part = [=, ranks = board_.size()](const char* from) {
    if (op != nccl::kAvg) return from;
    std::memcpy(scaled, from, bytes);
    divide(scaled, count, dtype, ranks);
    return static_cast<const char*>(scaled);
  };
  finish_.push_back([=] {
    std::memcpy(sum, part(parts[0]), bytes);
    for (std::size_t i = 1; i < parts.size(); ++i) combine(sum, part(parts[i]), count, dtype, op);
    std::memcpy(to, sum, bytes);
  });
}

void Work::all_reduce(const char* from, char* to, std::size_t count, int dtype, int op) {
  bytes_ += count * size_of(dtype);
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (rank != board_.rank()) send(rank, from, count * size_of(dtype));
  }
  gather_and_combine(from, to, count, dtype, op);
}

void Work::broadcast(const char* from, char* to, std::size_t bytes, int root) {
  if (root != board_.rank()) return receive(root, to, bytes);
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (rank != root) send(rank, from, bytes);
  }
  uses_.push_back({to, bytes, true});
  if (from != to) finish_.push_back([=] { std::memcpy(to, from, bytes); });
}

void Work::reduce(const char* from, char* to, std::size_t count, int dtype, int op, int root) {
  if (root != board_.rank()) return send(root, from, count * size_of(dtype));
  gather_and_combine(from, to, count, dtype, op);
}

void Work::all_gather(const char* from, char* to, std::size_t bytes) {
  for (int rank = 0; rank < board_.size(); ++rank) {
    char* part = to + static_cast<std::size_t>(rank) * bytes;
    if (rank != board_.rank()) {
      send(rank, from, bytes);
      receive(rank, part, bytes);
    } else if (from != part) {
      uses_.push_back({from, bytes, false});
      uses_.push_back({part, bytes, true});
      finish_.push_back([=] { std::memcpy(part, from, bytes); });
    }
  }
}

void Work::reduce_scatter(const char* from, char* to, std::size_t count, int dtype, int op) {
  const std::size_t bytes = count * size_of(dtype);
  bytes_ += bytes * static_cast<std::size_t>(board_.size());
  const auto part = [&](int rank) { return from + static_cast<std::size_t>(rank) * bytes; };
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (rank != board_.rank()) send(rank, part(rank), bytes);
  }
  gather_and_combine(part(board_.rank()), to, count, dtype, op);
}

bool Work::move(std::map<int, std::deque<Transfer>>& lists, bool sends) {
  bool moved = false;
  for (auto& [peer, list] : lists) {
    Mailbox& box = sends ? board_.from(board_.rank(), peer) : board_.from(peer, board_.rank());
    while (!list.empty()) {
      Transfer& next = list.front();
      const std::size_t count = sends ? box.write(next.data, next.left) : box.read(next.data, next.left);
      next.data += count;
      next.left -= count;
      moved = moved || count > 0;
      if (next.left > 0 && count == 0) break;
      if (next.left == 0) list.pop_front();
    }
  }
  std::erase_if(lists, [](const auto& entry) { return entry.second.empty(); });
  return moved;
}

bool Work::run(const std::function<bool()>& given_up) {
  // Sleeps before long: a yield goes only to threads of the same session, and other tests need the cores too.
  for (int idle = 0; !sends_.empty() || !receives_.empty();) {
    if (given_up()) return false;
    const bool sent = move(sends_, true), received = move(receives_, false);
    idle = sent || received ? 0 : idle + 1;
    if (idle > 20) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (idle > 0) std::this_thread::yield();
  }
  for (const std::function<void()>& step : finish_) step();
  return true;
}

}  // namespace roda::nccl_double
