// Tensors of any dtype as vectors of small whole numbers, and what collectives make of them, the naive way.
#pragma once

#include <roda/abi/types.h>

#include <cstddef>
#include <vector>

namespace roda::execute::testing {

// Memory of exactly the tensor's size, so that sanitizers see every overrun.
using Bytes = std::vector<unsigned char>;

Bytes encode(const std::vector<double>& values, int dtype);
std::vector<double> decode(const Bytes& bytes, int dtype);

// What `rank` holds at element i: so small that sums and products over 16 ranks are exact in every dtype.
double value(int rank, std::size_t i, int op);
std::vector<double> values(int rank, std::size_t count, int op, std::size_t from = 0);
// The reduction over ranks 0 .. size - 1 at element i.
double reduced(int size, std::size_t i, int dtype, int op);
// reduced() at from .. from + count - 1, as bytes.
Bytes expected(int size, std::size_t count, int dtype, int op, std::size_t from = 0);

}  // namespace roda::execute::testing
