// What follows from a seed.
#pragma once

#include <cstddef>
#include <random>

namespace roda::seeds {

using Draw = std::mt19937_64;

inline std::size_t draw_below(Draw& draw, std::size_t limit) { return static_cast<std::size_t>(draw() % limit); }
inline bool draw_one_in(Draw& draw, std::size_t n) { return draw_below(draw, n) == 0; }

}  // namespace roda::seeds
