// What a failed call of NCCL's means, in words that say what to do.
#pragma once

#include <roda/sdk/error.hpp>
#include <string>

#include "plugins/base/cuda/driver.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

// `what` begins the text; `comm` may be null.
sdk::Failure explain(const Library& library, const cuda::Driver& driver, Comm comm, Result result,
                     const std::string& what);

// The advice for a text of NCCL's; "" when it is none of the known ones.
std::string advice(const cuda::Driver& driver, Result result, const std::string& text);

// A status of the CUDA layer as an exception; `rank` is this rank's number in the job.
inline void check(const Status& status, int rank = -1) {
  if (!status.ok()) throw sdk::Failure(status.code(), "nccl: " + status.message(), rank);
}

}  // namespace roda::nccl
