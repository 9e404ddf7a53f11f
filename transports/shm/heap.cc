#include "transports/shm/heap.h"

#include <iterator>

#include "transports/shm/layout.h"

namespace roda::shm {

namespace {
constexpr std::size_t kPage = std::size_t{64} << 10;  // the largest that Linux machines have
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}  // namespace

Heap::Heap(std::size_t begin, std::size_t bytes) {
  if (bytes > 0) free_[begin] = bytes;
}

std::size_t Heap::take(std::size_t bytes) {
  bytes = Layout::round_up(bytes > 0 ? bytes : 1, kPage);
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const std::size_t begin = at->first, end = at->first + at->second;
    const std::size_t offset = Layout::round_up(begin, alignment);
    if (offset >= end || bytes > end - offset) continue;
    if (offset > begin) {
      at->second = offset - begin;
    } else {
      free_.erase(at);
    }
    if (offset + bytes < end) free_[offset + bytes] = end - offset - bytes;
    return offset;
  }
  return kNone;
}

void Heap::give_back(std::size_t offset, std::size_t bytes) {
  auto at = free_.emplace(offset, Layout::round_up(bytes > 0 ? bytes : 1, kPage)).first;
  if (auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at != free_.begin()) {
    if (auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }
}

}  // namespace roda::shm
