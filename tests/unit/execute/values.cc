#include "tests/unit/execute/values.h"

#include <algorithm>

#include "tests/unit/devices/values.h"

namespace roda::execute::testing {

Bytes encode(const std::vector<double>& values, int dtype) {
  const std::size_t width = roda_dtype_size(dtype);
  Bytes bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) cpu::store(dtype, bytes.data() + i * width, values[i]);
  return bytes;
}

std::vector<double> decode(const Bytes& bytes, int dtype) {
  const std::size_t width = roda_dtype_size(dtype);
  std::vector<double> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = cpu::load(dtype, bytes.data() + i * width);
  return values;
}

double value(int rank, std::size_t i, int op) {
  const auto mixed = (i * 7 + static_cast<std::size_t>(rank) * 5 + i / 13) % 11;
  if (op == RODA_PRODUCT) return (i + static_cast<std::size_t>(rank)) % 3 == 0 ? 2 : 1;
  return static_cast<double>(mixed % 5);
}

std::vector<double> values(int rank, std::size_t count, int op, std::size_t from) {
  std::vector<double> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value(rank, from + i, op);
  return all;
}

double reduced(int size, std::size_t i, int dtype, int op) {
  double result = value(0, i, op);
  if (dtype == RODA_BOOL) result = result != 0;
  for (int r = 1; r < size; ++r) {
    double next = value(r, i, op);
    if (dtype == RODA_BOOL) {
      const bool any = op == RODA_SUM || op == RODA_MAX;
      result = any ? result != 0 || next != 0 : result != 0 && next != 0;
    } else if (op == RODA_SUM) {
      result += next;
    } else if (op == RODA_PRODUCT) {
      result *= next;
    } else {
      result = op == RODA_MIN ? std::min(result, next) : std::max(result, next);
    }
  }
  return result;
}

Bytes expected(int size, std::size_t count, int dtype, int op, std::size_t from) {
  std::vector<double> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = reduced(size, from + i, dtype, op);
  return encode(all, dtype);
}

}  // namespace roda::execute::testing
