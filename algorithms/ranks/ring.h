// Numbers on a circle.
#pragma once

namespace roda::ranks {

// `value` moved into 0..size-1; value >= -size.
constexpr int wrap(int value, int size) { return (value + size) % size; }

constexpr int next(int rank, int size) { return wrap(rank + 1, size); }
constexpr int previous(int rank, int size) { return wrap(rank - 1, size); }

}  // namespace roda::ranks
