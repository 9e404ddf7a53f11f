// Which pages of a segment's heap are handed out. First fit over page-aligned ranges. One thread at a time.
#pragma once

#include <cstddef>
#include <map>

namespace roda::shm {

class Heap {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  Heap() = default;
  // Offsets begin + 0 .. begin + bytes, both multiples of a page.
  Heap(std::size_t begin, std::size_t bytes);

  // Offset of `bytes`, rounded up to pages, or kNone. Aligned to huge pages when that large.
  std::size_t take(std::size_t bytes);
  // What take(bytes) returned.
  void give_back(std::size_t offset, std::size_t bytes);

 private:
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; never adjacent
};

}  // namespace roda::shm
