// Heap memory aligned to cache lines that only grows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/execute/schedule/layout.h"

namespace roda::execute {

class Buffer {
 public:
  // At least `bytes` long; what it held is lost when it grows. Throws std::bad_alloc.
  char* reserve(std::size_t bytes) {
    if (bytes > bytes_) {
      data_.reset();
      data_.reset(static_cast<char*>(std::aligned_alloc(kLine, align_up(bytes))));
      bytes_ = data_ == nullptr ? 0 : align_up(bytes);
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace roda::execute
