// What NCCL can do natively, and how each collective is put to it.
#pragma once

#include <roda/abi/transport.h>

#include "transports/nccl/library.h"
#include "transports/nccl/request.h"

namespace roda::nccl {

// Pure. `version` is the library's.
bool is_supported(int version, int collective, int dtype, int op);

// Fills the request's byte counts. Throws sdk::Failure when a count or a pointer is missing.
void measure(int rank, int size, Request* request);
// Nothing is to be moved on any rank.
bool is_empty(const Request& request);

// Hands it to NCCL, on the request's stream; what NCCL returned, which may be kInProgress.
Result launch(const Library& library, Comm comm, int rank, int size, const Request& request);

}  // namespace roda::nccl
