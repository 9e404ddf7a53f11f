// What NCCL can do natively, and how each collective is put to it.
#pragma once

#include <roda/abi/transport.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "transports/nccl/library.h"

namespace roda::nccl {

// One collective under way: what was asked for, and how far it is.
using Clock = std::chrono::steady_clock;

// Its own copy of what was asked for. One thread at a time.
struct Request {
  enum class State {
    kQueued,     // waits for its turn to be handed to NCCL
    kLaunching,  // NCCL has it, but not yet all of it lies on the stream
    kRunning,    // all of it lies on the stream, and `end` behind it
    kOver,       // it does not use its memory any more
  };

  void assign(const roda_collective_args& from, int size) {
    args = from;
    const auto keep = [size](const std::size_t** counts, std::vector<std::size_t>* kept) {
      kept->assign(*counts, *counts != nullptr ? *counts + size : nullptr);
      if (*counts != nullptr) *counts = kept->data();
    };
    keep(&args.send_counts, &send_counts);
    keep(&args.recv_counts, &recv_counts);
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

  roda_collective_args args{};  // its counts point into the two below
  std::vector<std::size_t> send_counts, recv_counts;
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
// Nothing is to be moved on any rank.
bool is_empty(const Request& request);

// Hands it to NCCL, on the request's stream; what NCCL returned, which may be kInProgress.
Result launch(const Library& library, Comm comm, int rank, int size, const Request& request);

}  // namespace roda::nccl
