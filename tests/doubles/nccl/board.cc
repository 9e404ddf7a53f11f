#include "tests/doubles/nccl/board.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace roda::nccl_double {

std::size_t Mailbox::write(const char* from, std::size_t bytes) {
  const std::uint64_t at = written.load(std::memory_order_relaxed);
  const std::size_t room = kBytes - static_cast<std::size_t>(at - taken.load(std::memory_order_acquire));
  const std::size_t offset = static_cast<std::size_t>(at % kBytes);
  const std::size_t count = std::min({bytes, room, kBytes - offset});
  std::memcpy(data + offset, from, count);
  written.store(at + count, std::memory_order_release);
  return count;
}

std::size_t Mailbox::read(char* to, std::size_t bytes) {
  const std::uint64_t at = taken.load(std::memory_order_relaxed);
  const std::size_t there = static_cast<std::size_t>(written.load(std::memory_order_acquire) - at);
  const std::size_t offset = static_cast<std::size_t>(at % kBytes);
  const std::size_t count = std::min({bytes, there, kBytes - offset});
  std::memcpy(to, data + offset, count);
  taken.store(at + count, std::memory_order_release);
  return count;
}

Board::Board(const std::string& name, int rank, int size, int device) : rank_(rank), size_(size) {
  const auto pairs = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  bytes_ = sizeof(Head) + pairs * sizeof(Mailbox);
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes_)) != 0) {
    if (fd >= 0) ::close(fd);
    throw std::runtime_error("no shared memory for the NCCL double");
  }
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("the NCCL double can't map its memory");
  head_ = static_cast<Head*>(memory);
  boxes_ = reinterpret_cast<Mailbox*>(static_cast<char*>(memory) + sizeof(Head));
  head_->device_plus_one[rank].store(device + 1);
  if (head_->arrived.fetch_add(1) + 1 == size) ::shm_unlink(name.c_str());
}

Board::~Board() { ::munmap(head_, bytes_); }

// A rank can be one word ahead of one that still reads, and no more.
bool Board::exchange(int channel, std::uint64_t word, const std::function<bool()>& given_up, bool* are_equal) {
  Words* const words = head_->words[channel];
  const std::uint64_t number = words[rank_].said.load();
  words[rank_].last[number % 2].store(word);
  words[rank_].said.store(number + 1);
  *are_equal = true;
  for (int other = 0; other < size_; ++other) {
    while (words[other].said.load() <= number) {
      if (given_up()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    *are_equal = *are_equal && words[other].last[number % 2].load() == word;
  }
  return true;
}

void Board::sweep(const std::string& prefix) {
  DIR* folder = ::opendir("/dev/shm");
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0) continue;
    const auto owner = static_cast<pid_t>(std::atol(name.c_str() + prefix.size()));
    if (::kill(owner, 0) != 0 && errno == ESRCH) ::shm_unlink(("/" + name).c_str());
  }
  ::closedir(folder);
}

int Board::same_device() const {
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && head_->device_plus_one[other].load() == head_->device_plus_one[rank_].load()) return other;
  }
  return -1;
}

}  // namespace roda::nccl_double
