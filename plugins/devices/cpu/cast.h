// Conversion between any two dtypes over host memory. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roda::cpu {

// False for an unknown dtype. to and from don't overlap, or are equal and the elements of equal size. Floating point to
// integer truncates toward zero and saturates, NaN gives 0; integers among each other wrap around; to floating point
// rounds to nearest even; to bool is "not zero".
bool cast(void* to, std::int32_t to_dtype, const void* from, std::int32_t from_dtype, std::size_t count);

}  // namespace roda::cpu
