// One rank of the benchmark: a group of the transport, the tensor in private and in shared memory, and staging memory.
#pragma once

#include <roda/abi/transport.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugins/base/wait_policy.h"

namespace roda::shm_bench {

inline constexpr int kMaxRanks = 64;

// The exchange of all ranks, in memory that their parent made.
struct Board {
  struct Card {
    std::atomic<std::size_t> bytes;
    char data[512];
  };
  Card cards[kMaxRanks];
};

class Rank {
 public:
  static constexpr std::uint64_t kSlots = 3;  // staging blocks in rotation
  static constexpr std::size_t kMaxBlock = 4 << 20;

  Rank(Board& board, int rank, int size, std::size_t bytes);

  void signal(std::uint32_t index, std::uint64_t value);
  void wait(std::uint32_t index, std::uint64_t value);
  void meet();
  // One call each of the transport.
  void signal_one(int peer, std::uint32_t index, std::uint64_t value) {
    t_.signal(group_, peer, index, value, &error_);
  }
  std::uint64_t value_of(int peer, std::uint32_t index) { return t_.signal_value(group_, peer, index); }
  void* map(int peer, std::uint32_t slot) { return t_.window_map(group_, peer, slot); }
  void reopen() { t_.window_open(group_, 9, private_, count * 4, nullptr, &error_); }
  void progress() { t_.progress(context_); }
  // From a peer's private tensor.
  void get(int peer, std::size_t first, float* to, std::size_t n);
  // Where part `i` of n elements begins; whole cache lines.
  std::size_t part(std::size_t n, int i) const;
  float* slot(int peer, std::uint64_t step) const {
    return stage_[static_cast<std::size_t>(peer)] + step % kSlots * (kMaxBlock / 4);
  }
  void work_on(bool shared_memory) { mine = shared_memory ? shared[static_cast<std::size_t>(rank)] : private_; }

  const int rank;
  const int size;
  const std::size_t count;     // elements of the tensor
  float* mine = nullptr;       // the tensor
  std::vector<float*> shared;  // every rank's tensor in shared memory
  std::vector<float> scratch;
  std::uint64_t step = 0;  // blocks ever worked on

 private:
  struct Place {
    Board* board;
    int rank;
  };
  static std::int32_t put(void* self, const char* key, const void* value, std::size_t bytes, roda_error* error);
  static std::int32_t get_card(void* self, std::int32_t rank, const char* key, void* value, std::size_t* bytes,
                               roda_error* error);
  void form();
  float* open_shared(std::uint32_t slot, std::size_t bytes);
  void expect(int code);

  const roda_transport& t_;
  Place place_;
  WaitPolicy policy_;
  roda_host host_{};
  roda_context* context_ = nullptr;
  roda_group* group_ = nullptr;
  roda_error error_{};
  float* private_ = nullptr;
  std::vector<float*> stage_;
  std::uint64_t meetings_ = 0;
};

}  // namespace roda::shm_bench
