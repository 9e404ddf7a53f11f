// What the two ranks of the benchmark share, in memory that their parent made.
#pragma once

#include <atomic>
#include <cstddef>

namespace roda::tcp_bench {

struct Board {
  static constexpr int kEntries = 256;
  struct Entry {
    std::atomic<int> is_ready;
    int rank;
    std::size_t bytes;
    char key[96];
    char value[512];
  };
  std::atomic<int> used;
  std::atomic<int> arrived;
  std::atomic<int> port;
  Entry entries[kEntries];

  // Both ranks, outside what is measured.
  void meet() {
    const int target = (arrived.fetch_add(1) / 2 + 1) * 2;
    while (arrived.load() < target) {
    }
  }
};

}  // namespace roda::tcp_bench
