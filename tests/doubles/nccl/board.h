// The shared memory of one communicator of the NCCL double: who has come, and a mailbox for every ordered pair of
// ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace roda::nccl_double {

// Bytes from one rank to another, in order. One writer, one reader.
struct Mailbox {
  static constexpr std::size_t kBytes = 32 * 1024;
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> taken;
  char data[kBytes];

  // As many of the bytes as there is room for, or are there.
  std::size_t write(const char* from, std::size_t bytes);
  std::size_t read(char* to, std::size_t bytes);
};

class Board {
 public:
  static constexpr int kMaxRanks = 64;

  // All ranks name the same board; the last to come takes the name away. `device`: a number of the host's and device's.
  Board(const std::string& name, int rank, int size, int device);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Removes the boards whose names begin so and go on with the number of a process that is gone.
  static void sweep(const std::string& prefix);

  bool is_complete() const { return head_->arrived.load() >= size_; }
  // The lowest other rank on the same device, or -1.
  int same_device() const;
  // Says a word and waits for all ranks', once for each time that they do so on that channel, of two. False: `given_up`
  // said so before.
  bool exchange(int channel, std::uint64_t word, const std::function<bool()>& given_up, bool* are_equal);
  Mailbox& from(int sender, int receiver) { return boxes_[sender * size_ + receiver]; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct Words {
    std::atomic<std::uint64_t> said;  // how many
    std::atomic<std::uint64_t> last[2];
  };
  struct alignas(64) Head {
    std::atomic<int> arrived;
    std::atomic<int> device_plus_one[kMaxRanks];
    Words words[2][kMaxRanks];
  };
  const int rank_;
  const int size_;
  std::size_t bytes_ = 0;
  Head* head_ = nullptr;
  Mailbox* boxes_ = nullptr;
};

}  // namespace roda::nccl_double
