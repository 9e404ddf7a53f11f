#include "tests/unit/execute/values.h"

#include <algorithm>

#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute::testing {

Bytes encode(const std::vector<double>& values, int dtype) {
  Bytes bytes(values.size() * roda_dtype_size(dtype));
  if (dtype == RODA_BOOL) {
    std::transform(values.begin(), values.end(), bytes.begin(), [](double v) { return v != 0 ? 1 : 0; });
  } else if (!values.empty()) {
    roda_cpu_device()->cast(bytes.data(), dtype, values.data(), RODA_FLOAT64, values.size(), nullptr, nullptr);
  }
  return bytes;
}

std::vector<double> decode(const Bytes& bytes, int dtype) {
  std::vector<double> values(bytes.size() / roda_dtype_size(dtype));
  if (!values.empty()) {
    roda_cpu_device()->cast(values.data(), RODA_FLOAT64, bytes.data(), dtype, values.size(), nullptr, nullptr);
  }
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
