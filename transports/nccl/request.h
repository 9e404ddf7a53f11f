// One collective under way: what was asked for, and how far it is.
#pragma once

#include <roda/abi/transport.h>

#include <chrono>
#include <cstdint>
#include <roda/sdk/error.hpp>
#include <string>
#include <vector>

#include "plugins/base/cuda/types.h"

namespace roda::nccl {

using Clock = std::chrono::steady_clock;

// Its own copy of what was asked for. One thread at a time.
struct Request {
  enum class State {
    kQueued,     // waits for its turn to be handed to NCCL
    kLaunching,  // NCCL has it, but not yet all of it lies on the stream
    kRunning,    // all of it lies on the stream, and `end` behind it
    kOver,       // it does not use its memory any more
  };

  void assign(const roda_collective_args& args, int size);
  std::string name() const { return roda_collective_name(args.collective); }
  // Reads or writes a part of the range, unless it is over.
  bool touches(const void* base, std::size_t bytes) const;

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

}  // namespace roda::nccl
