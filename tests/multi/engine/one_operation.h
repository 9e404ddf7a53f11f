// An allreduce of one number, of programs that run without GoogleTest.
#pragma once

#include "bindings/c/roda.h"

namespace roda::test {

// Its code, or that of what refused it; *data becomes the sum.
inline int add_up(float* data, roda_error* error) {
  roda_op op{};
  op.struct_size = sizeof op;
  op.collective = RODA_ALLREDUCE;
  op.name = "all";
  op.dtype = RODA_FLOAT32;
  op.input = op.output = data;
  op.device = -1;
  op.op = RODA_SUM;
  op.prescale = op.postscale = 1;
  roda_handle handle = 0;
  const int submitted = roda_submit(&op, 1, &handle, error);
  return submitted == RODA_OK ? roda_wait(handle, error) : submitted;
}

}  // namespace roda::test
