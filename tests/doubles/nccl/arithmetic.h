// Reductions of the NCCL double.
#pragma once

#include <cstddef>

namespace roda::nccl_double {

std::size_t size_of(int dtype);
// to[i] = to[i] (op) from[i]; average adds.
void combine(char* to, const char* from, std::size_t count, int dtype, int op);
// data[i] /= ranks, for floating point.
void divide(char* data, std::size_t count, int dtype, int ranks);

}  // namespace roda::nccl_double
