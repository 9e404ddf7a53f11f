// What a transport with native collectives finds out about one before its library has it.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace roda::sdk {

// True when the collective moves elements of that dtype, or combines them by sum, min, max or product, or is a barrier:
// what libraries have. Pure.
inline bool is_plain(int collective, int dtype, int op) {
  if (collective == RODA_BARRIER) return true;
  if (collective == RODA_ADASUM_ALLREDUCE || roda_collective_is(collective, RODA_RUNS) == 0) return false;
  if (roda_collective_is(collective, RODA_COMBINES) == 0) return roda_dtype_size(dtype) != 0;
  return roda_dtype_is(dtype, RODA_REDUCES) != 0 &&
         (op == RODA_SUM || op == RODA_MIN || op == RODA_MAX || op == RODA_PRODUCT);
}

inline Failure no_such_collective(const char* transport, const roda_collective_args& args) {
  return {RODA_ERR_UNSUPPORTED, std::string(transport) + ": no " + roda_collective_name(args.collective) + " of " +
                                    roda_dtype_name(args.dtype) + " by " + roda_reduce_op_name(args.op)};
}

inline std::size_t sum(const std::size_t* counts, int size) {
  return std::accumulate(counts, counts + size, std::size_t{0});
}

// The elements of this rank's input and output.
struct Elements {
  std::size_t input, output;
};
inline Elements elements_of(const roda_collective_args& args, int rank, int size) {
  const auto of = [&](int extent, const std::size_t* counts) -> std::size_t {
    if (extent == RODA_WHOLE) return args.count;
    if (extent == RODA_OWN_PART) return counts[rank];
    return extent == RODA_ALL_PARTS ? sum(counts, size) : 0;
  };
  const roda_collective_entry& data = *roda_collective_of(args.collective);
  const std::size_t output = of(data.output, args.recv_counts);
  return {of(data.input, args.collective == RODA_ALLTOALL ? args.send_counts : args.recv_counts),
          args.collective == RODA_REDUCE && rank != args.root ? 0 : output};
}

// True when there is nothing to talk about: no elements anywhere, or a group of one, whose data are copied here and
// now. An alltoall without data here may have some elsewhere.
inline bool is_trivial(const roda_collective_args& args, int size) {
  if (args.collective == RODA_BARRIER) return size == 1;
  const bool is_whole = roda_collective_of(args.collective)->input == RODA_WHOLE;
  const std::size_t elements = is_whole ? args.count : sum(args.recv_counts, size);
  if (elements == 0 && (size == 1 || args.collective != RODA_ALLTOALL)) return true;
  if (size > 1) return false;
  if (args.input != nullptr && args.input != args.output) {
    std::memcpy(args.output, args.input, elements * roda_dtype_size(args.dtype));
  }
  return true;
}

// What collective_start was given, for as long as it runs. The vectors keep their memory between uses.
struct KeptCollective {
  void keep(const roda_collective_args& from, int size) {
    args = from;
    const auto copy = [size](const std::size_t** counts, std::vector<std::size_t>* kept) {
      kept->assign(*counts, *counts != nullptr ? *counts + size : nullptr);
      if (*counts != nullptr) *counts = kept->data();
    };
    copy(&args.send_counts, &send_counts);
    copy(&args.recv_counts, &recv_counts);
  }

  roda_collective_args args{};  // its counts point into the two below
  std::vector<std::size_t> send_counts, recv_counts;
};

}  // namespace roda::sdk
