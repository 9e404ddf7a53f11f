// Memory that several processes of one host map: nameless, so that nothing is left behind when all of them are killed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

// One mapped segment, shared and readable and writable, page-aligned, zero-filled, at an address of this process's own.
// It is sparse: pages cost memory only once touched or reserved. It is not there in a forked child, which can neither
// corrupt it nor keep it alive: touching it there is a fault. The descriptor is close-on-exec and is what a peer
// attaches to (see FdMailbox). Threads: const members from any thread; create, attach, reserve and punch by one at a
// time per range.
class SharedSegment {
 public:
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept { *this = std::move(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(is_memfd_, other.is_memfd_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // A new segment of `bytes` (rounded up to whole pages). memfd, sealed against shrinking, where the kernel has it,
  // else a POSIX object under /dev/shm that is unlinked before this returns; always that with `force_posix`. `label`
  // shows in /proc/<pid>/maps only; letters, digits, '-'.
  static Status create(const std::string& label, std::size_t bytes, SharedSegment* out, bool force_posix = false);

  // Maps a segment that a peer created. Refuses one that is shorter than `bytes`, or that is a memfd and not sealed
  // against shrinking: a peer could turn reads into SIGBUS otherwise.
  static Status attach(UniqueFd fd, std::size_t bytes, SharedSegment* out);

  // Takes the pages of the range from the system now. When they aren't to be had (a /dev/shm that is too small) that is
  // RODA_ERR_NO_MEMORY here instead of SIGBUS at the first touch. Contents that were there stay.
  Status reserve(std::size_t offset, std::size_t bytes);

  // Gives the whole pages inside the range back; they read as zeros afterwards, in every process.
  void punch(std::size_t offset, std::size_t bytes);

  // Keeps these ranges (offset -> bytes) mapped when the segment goes; the caller unmaps them.
  void keep(std::map<std::size_t, std::size_t> ranges) { kept_ = std::move(ranges); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_.get(); }
  bool is_memfd() const { return is_memfd_; }
  explicit operator bool() const { return data_ != nullptr; }
  // The mapping stays; the segment can no longer be handed on, reserved or punched.
  void close_fd() { fd_.reset(); }

 private:
  Status map();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool is_memfd_ = false;
  std::map<std::size_t, std::size_t> kept_;
};

}  // namespace roda
