// Memory for measurements that begins at a page, as large tensors do: how fast the kernel and memcpy copy depends on
// where in a page, and in a cache line, both ends begin.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace roda {

template <typename T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::align_val_t kPage{4096};

  PageAllocator() = default;
  template <typename U>
  explicit PageAllocator(const PageAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kPage)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kPage); }
  bool operator==(const PageAllocator&) const { return true; }
};

using Pages = std::vector<char, PageAllocator<char>>;

}  // namespace roda
