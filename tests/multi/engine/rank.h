// Helpers of tests that run inside every rank of a job.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::test {

// Initialises before the first test and shuts down after the last.
class Job : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;
};

struct Outcome {
  int code = RODA_OK;
  std::string message;
};

// The name and the shape must live until the op is submitted.
roda_op make_op(int collective, const char* name, const std::vector<std::int64_t>& shape, const void* input,
                void* output, int dtype = RODA_FLOAT32);
inline roda_op make_op(int collective, const std::string& name, const std::vector<std::int64_t>& shape,
                       const void* input, void* output, int dtype = RODA_FLOAT32) {
  return make_op(collective, name.c_str(), shape, input, output, dtype);
}

// Submits and hands out the handle; the strings and shapes of ops may go afterwards.
Outcome submit(const std::vector<roda_op>& ops, roda_handle* handle);
Outcome wait(roda_handle handle);  // and releases
Outcome run(const roda_op& op);

inline int rank() { return roda_rank(); }
inline int size() { return roda_size(); }

template <typename T>
struct Result {
  Outcome outcome;
  std::vector<std::int64_t> shape;
  std::vector<T> values;
  std::vector<std::int32_t> splits;
};

// For collectives whose output the engine owns.
template <typename T>
Result<T> run_owned(const roda_op& op) {
  Result<T> result;
  roda_handle handle = 0;
  result.outcome = submit({op}, &handle);
  if (result.outcome.code != RODA_OK) return result;
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_wait(handle, &error) != RODA_OK) {
    result.outcome = {error.code, error.message};
    roda_release(handle);
    return result;
  }
  roda_output output{};
  output.struct_size = sizeof output;
  result.splits.resize(64);
  output.received_splits = result.splits.data();
  output.received_splits_capacity = 64;
  roda_get_output(handle, 0, &output, &error);
  result.splits.resize(static_cast<std::size_t>(output.num_received_splits));
  result.shape.assign(output.shape, output.shape + output.ndim);
  std::int64_t n = 1;
  for (const std::int64_t d : result.shape) n *= d;
  const T* data = static_cast<const T*>(output.data);
  result.values.assign(data, data + n);
  roda_release(handle);
  roda_output_release(output.owner);
  return result;
}

}  // namespace roda::test
