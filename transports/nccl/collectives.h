// What NCCL can do natively, and how each collective is put to it.
#pragma once

#include <roda/sdk/collective.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

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
  // Fills the byte counts. Throws sdk::Failure when a count or a pointer is missing.
  void measure(int rank, int size) {
    const bool is_rooted = roda_collective_is(args.collective, RODA_ROOTED) != 0;
    const bool needs_recv_counts = roda_collective_of(args.collective)->input != RODA_WHOLE;
    if ((needs_recv_counts && recv_counts.empty()) || (args.collective == RODA_ALLTOALL && send_counts.empty())) {
      throw sdk::Failure(RODA_ERR_INVALID, "nccl: " + name() + " without its counts");
    }
    if (is_rooted && (args.root < 0 || args.root >= size)) {
      throw sdk::Failure(RODA_ERR_INVALID, "nccl: " + name() + " with root " + std::to_string(args.root));
    }
    const auto [input, output] = sdk::elements_of(args, rank, size);
    input_bytes = input * roda_dtype_size(args.dtype);
    output_bytes = output * roda_dtype_size(args.dtype);
  }
  // Nothing is to be moved on any rank: an alltoall without data here may have some between others, and then they need
  // nothing of this rank.
  bool is_empty() const { return input_bytes == 0 && output_bytes == 0; }
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

inline constexpr int kNone = -1;

// The dtype of the elements that a reduction computes with.
inline int dtype_of(int dtype) {
  static constexpr std::pair<int, int> kDtypes[] = {
      {RODA_UINT8, kUint8},     {RODA_BOOL, kUint8},      {RODA_INT8, kInt8},
      {RODA_INT32, kInt32},     {RODA_INT64, kInt64},     {RODA_FLOAT16, kFloat16},
      {RODA_FLOAT32, kFloat32}, {RODA_FLOAT64, kFloat64}, {RODA_BFLOAT16, kBfloat16},
  };
  for (const auto& [ours, theirs] : kDtypes) {
    if (ours == dtype) return theirs;
  }
  return kNone;
}

// Any byte but zero is true: the largest byte is then OR, the smallest AND.
inline int op_of(int dtype, int op) {
  switch (op) {
    case RODA_SUM:
      return dtype == RODA_BOOL ? kMax : kSum;
    case RODA_PRODUCT:
      return dtype == RODA_BOOL ? kMin : kProd;
    case RODA_MIN:
      return kMin;
    case RODA_MAX:
      return kMax;
    case RODA_AVERAGE:
      // NCCL scales each input and then adds: 16-bit floats would be rounded more often than where a sum is scaled.
      return roda_dtype_is(dtype, RODA_FLOAT) != 0 && roda_dtype_size(dtype) > 2 ? kAvg : kNone;
    default:
      return kNone;
  }
}

inline bool is_reduction(int version, int dtype, int op) {
  const int type = dtype_of(dtype), operation = op_of(dtype, op);
  if (type == kNone || operation == kNone) return false;
  return version >= kAverage || (type != kBfloat16 && operation != kAvg);
}

inline bool are_equal(const std::vector<std::size_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](std::size_t count) { return count == counts.front(); });
}

// Pure. `version` is the library's.
inline bool is_supported(int version, int collective, int dtype, int op) {
  const bool is_ours = collective != RODA_BARRIER && collective != RODA_ADASUM_ALLREDUCE;
  if (!is_ours || roda_collective_is(collective, RODA_RUNS) == 0) return false;
  if (roda_collective_is(collective, RODA_COMBINES) != 0) return is_reduction(version, dtype, op);
  return roda_dtype_size(dtype) != 0;
}

// Hands a request to NCCL, on its stream; what NCCL returned. What only moves data is told as
// bytes, so that every dtype can travel.
struct Launch {
  const Library& nccl;
  const Comm comm;
  const int rank;
  const int size;
  const Request& request;
  const roda_collective_args& args = request.args;
  const std::size_t width = roda_dtype_size(args.dtype);
  const char* const input = static_cast<const char*>(args.input);
  char* const output = static_cast<char*>(args.output);

  Result operator()() {
    switch (args.collective) {
      case RODA_ALLREDUCE:
        return nccl.AllReduce(input, output, args.count, type(), op(), comm, request.stream);
      case RODA_REDUCE:
        return nccl.Reduce(input, output, args.count, type(), op(), args.root, comm, request.stream);
      case RODA_BROADCAST:
        return nccl.Broadcast(is_root() ? input : output, output, args.count * width, kUint8, args.root, comm,
                              request.stream);
      case RODA_ALLGATHER:
        return allgather();
      case RODA_REDUCESCATTER:
        return reduce_scatter();
      default:
        return alltoall();
    }
  }

  int type() const { return dtype_of(args.dtype); }
  int op() const { return op_of(args.dtype, args.op); }
  bool is_root() const { return rank == args.root && input != nullptr; }

  // Under way counts as taken: inside a group nothing is begun before its end.
  static bool is_taken(Result result) { return result == kSuccess || result == kInProgress; }

  // `begin(rank)` for every rank, as one operation of NCCL's.
  template <typename Begin>
  Result grouped(Begin&& begin) {
    const Result started = nccl.GroupStart();
    if (!is_taken(started)) return started;
    Result first = kSuccess;
    for (int each = 0; each < size && is_taken(first); ++each) first = begin(each);
    const Result ended = nccl.GroupEnd();
    return is_taken(first) ? ended : first;
  }

  Result allgather() {
    const std::vector<std::size_t>& counts = request.recv_counts;
    if (are_equal(counts)) {
      return nccl.AllGather(input, output, counts[0] * width, kUint8, comm, request.stream);
    }
    char* to = output;
    return grouped([&](int root) {
      const std::size_t bytes = counts[static_cast<std::size_t>(root)] * width;
      char* part = std::exchange(to, to + bytes);
      if (bytes == 0) return kSuccess;
      return nccl.Broadcast(root == rank ? input : part, part, bytes, kUint8, root, comm, request.stream);
    });
  }

  Result reduce_scatter() {
    const std::vector<std::size_t>& counts = request.recv_counts;
    if (are_equal(counts)) {
      return nccl.ReduceScatter(input, output, counts[0], type(), op(), comm, request.stream);
    }
    const char* from = input;
    return grouped([&](int root) {
      const std::size_t count = counts[static_cast<std::size_t>(root)];
      const char* part = std::exchange(from, from + count * width);
      if (count == 0) return kSuccess;
      return nccl.Reduce(part, root == rank ? output : nullptr, count, type(), op(), root, comm, request.stream);
    });
  }

  Result alltoall() {
    if (args.count > 0 && nccl.AlltoAll != nullptr) {
      return nccl.AlltoAll(input, output, args.count * width, kUint8, comm, request.stream);
    }
    const char* from = input;
    char* to = output;
    return grouped([&](int peer) {
      const auto index = static_cast<std::size_t>(peer);
      const std::size_t sent = request.send_counts[index] * width, received = request.recv_counts[index] * width;
      Result result = kSuccess;
      if (sent > 0) result = nccl.Send(from, sent, kUint8, peer, comm, request.stream);
      if (received > 0 && is_taken(result)) {
        result = nccl.Recv(to, received, kUint8, peer, comm, request.stream);
      }
      from += sent;
      to += received;
      return result;
    });
  }
};

}  // namespace roda::nccl
