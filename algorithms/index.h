// A number of a rank, a chunk or a level as an index.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roda {

// Never of a negative number.
constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace roda
