// How a range is divided among the rails of a connection. Both sides compute it: the receiver knows from it how many
// parts will come.
#pragma once

#include <algorithm>
#include <cstddef>

namespace roda::verbs {

struct Part {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// As many parts as rails, fewer while a part would be shorter than `least`; at least one.
inline int part_count(std::size_t bytes, int rails, std::size_t least) {
  const std::size_t worth = bytes / std::max<std::size_t>(least, 1);
  return static_cast<int>(std::clamp<std::size_t>(worth, 1, static_cast<std::size_t>(rails)));
}

// Part `index` of `count`; none is empty when there are at least `count` cache lines. Boundaries are multiples of 64.
inline Part part_of(std::size_t bytes, int count, int index) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = bytes / kLine, parts = static_cast<std::size_t>(count), i = static_cast<std::size_t>(index);
  const std::size_t begin = lines * i / parts * kLine;
  const std::size_t end = i + 1 == parts ? bytes : lines * (i + 1) / parts * kLine;
  return {begin, end - begin};
}

}  // namespace roda::verbs
