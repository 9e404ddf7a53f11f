// What NCCL can do natively, and how each collective is put to it.
#pragma once

#include <roda/sdk/collective.hpp>

#include <chrono>
#include <cstdint>

#include "transports/nccl/library.h"

namespace roda::nccl {

// One collective under way: what was asked for, and how far it is.
using Clock = std::chrono::steady_clock;

// One thread at a time.
struct Request : sdk::KeptCollective {
  enum class State {
    kQueued,     // waits for its turn to be handed to NCCL
    kLaunching,  // NCCL has it, but not yet all of it lies on the stream
    kRunning,    // all of it lies on the stream, and `end` behind it
    kOver,       // it does not use its memory any more
  };

  void assign(const roda_collective_args& from, int size) {
    keep(from, size);
    state = State::kQueued;
    begin = end = nullptr;
    has_begun = false;
  }
  std::string name() const { return roda_collective_name(args.collective); }
  // Reads or writes a part of the range, unless it is over.
  bool touches(const void* base, std::size_t bytes) const {
    return state != State::kOver && (sdk::overlaps(args.input, input_bytes, base, bytes) ||
                                     sdk::overlaps(args.output, output_bytes, base, bytes));
  }

  std::size_t input_bytes = 0, output_bytes = 0;
  cuda::Stream stream = nullptr;
  State state = State::kQueued;
  cuda::Event begin = nullptr;  // before it on the stream
  cuda::Event end = nullptr;    // behind it
  bool has_begun = false;       // the GPU has come to it, at `began` or before
  Clock::time_point began;
};

// Pure. `version` is the library's.
bool is_supported(int version, int collective, int dtype, int op);

// Fills the request's byte counts. Throws sdk::Failure when a count or a pointer is missing.
void measure(int rank, int size, Request* request);
// Nothing is to be moved on any rank: an alltoall without data here may have some between others, and then they need
// nothing of this rank.
inline bool is_empty(const Request& request) { return request.input_bytes == 0 && request.output_bytes == 0; }

// Hands it to NCCL, on the request's stream; what NCCL returned.
Result launch(const Library& library, Comm comm, int rank, int size, const Request& request);

}  // namespace roda::nccl
