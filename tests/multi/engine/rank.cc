#include "tests/multi/engine/rank.h"

namespace roda::test {

void Job::SetUp() {
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
}

void Job::TearDown() { roda_shutdown(); }

roda_op make_op(int collective, const char* name, const std::vector<std::int64_t>& shape, const void* input,
                void* output, int dtype) {
  roda_op op{};
  op.struct_size = sizeof op;
  op.collective = collective;
  op.name = name;
  op.dtype = dtype;
  op.ndim = static_cast<int32_t>(shape.size());
  op.shape = shape.data();
  op.input = input;
  op.output = output;
  op.device = -1;
  op.op = RODA_SUM;
  op.prescale = op.postscale = 1.0;
  return op;
}

Outcome submit(const std::vector<roda_op>& ops, roda_handle* handle) {
  roda_error error{};
  error.struct_size = sizeof error;
  const int code = roda_submit(ops.data(), static_cast<int32_t>(ops.size()), handle, &error);
  return {code, code == RODA_OK ? "" : error.message};
}

Outcome wait(roda_handle handle) {
  roda_error error{};
  error.struct_size = sizeof error;
  const int code = roda_wait(handle, &error);
  roda_release(handle);
  return {code, code == RODA_OK ? "" : error.message};
}

Outcome run(const roda_op& op) {
  roda_handle handle = 0;
  const Outcome outcome = submit({op}, &handle);
  return outcome.code == RODA_OK ? wait(handle) : outcome;
}

}  // namespace roda::test
