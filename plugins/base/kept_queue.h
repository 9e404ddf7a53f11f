// A queue that keeps its memory: a ring of places, which grows when all are taken and never shrinks.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace roda {

template <typename T>
class KeptQueue {
 public:
  KeptQueue() = default;
  KeptQueue(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return places_[(first_ + i) & (places_.size() - 1)]; }
  const T& operator[](std::size_t i) const { return places_[(first_ + i) & (places_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(T value) { add() = std::move(value); }
  // One more at the end, as its place was left: a value that keeps memory of its own is filled again.
  T& add() {
    if (size_ == places_.size()) grow();
    return (*this)[size_++];
  }
  // The value stays in its place until that is filled again.
  void pop_front() {
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
  }
  // Takes out all for which take(T&), called in order, returns true; the others keep their order.
  void take_if(auto take) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      T& value = (*this)[i];
      if (take(value)) continue;
      if (kept != i) (*this)[kept] = std::move(value);
      ++kept;
    }
    size_ = kept;
  }
  bool any_of(auto is_it) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (is_it((*this)[i])) return true;
    }
    return false;
  }
  void clear() {
    std::ranges::fill(places_, T());
    size_ = 0;
  }

 private:
  void grow() {
    std::ranges::rotate(places_, places_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    places_.resize(std::max<std::size_t>(8, 2 * places_.size()));
  }

  std::vector<T> places_;  // a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace roda
