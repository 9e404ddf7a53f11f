#include "transports/gloo/collectives.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

namespace roda::gloo {
namespace {

using ContextPtr = std::shared_ptr<::gloo::Context>;

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// Gloo's options are templates, but only the element's size matters: reductions come as a function. `Word` is any type
// of that size.
template <typename Word>
Word* words(const void* data) {
  return static_cast<Word*>(const_cast<void*>(data));
}

template <typename Word>
void allreduce(const ContextPtr& context, const Collective& what, const roda_host* host) {
  ::gloo::AllreduceOptions options(context);
  if (what.input != what.output) options.setInput(words<Word>(what.input), what.count);
  options.setOutput(words<Word>(what.output), what.count);
  options.setTag(what.tag);
  const int dtype = what.dtype, op = what.op;
  options.setReduceFunction([host, dtype, op](void* dst, const void* a, const void* b, std::size_t count) {
    if (host->reduce(host->self, dst, a, b, count, dtype, op) == RODA_OK) return;
    throw sdk::Failure(RODA_ERR_UNSUPPORTED,
                       std::string("no ") + roda_reduce_op_name(op) + " of " + roda_dtype_name(dtype));
  });
  ::gloo::allreduce(options);
}

template <typename Word>
void broadcast(const ContextPtr& context, const Collective& what) {
  ::gloo::BroadcastOptions options(context);
  if (what.input != what.output && what.input != nullptr && context->rank == what.root) {
    options.setInput(words<Word>(what.input), what.count);
  }
  options.setOutput(words<Word>(what.output), what.count);
  options.setRoot(what.root);
  options.setTag(what.tag);
  ::gloo::broadcast(options);
}

template <typename Word>
void allgather(const ContextPtr& context, const Collective& what) {
  const std::vector<std::size_t>& counts = what.recv_counts;
  const auto own = static_cast<std::size_t>(context->rank);
  if (std::all_of(counts.begin(), counts.end(), [&](std::size_t count) { return count == counts[0]; })) {
    ::gloo::AllgatherOptions options(context);
    options.setInput(words<Word>(what.input), counts[0]);
    options.setOutput(words<Word>(what.output), counts[0] * counts.size());
    options.setTag(what.tag);
    ::gloo::allgather(options);
    return;
  }
  ::gloo::AllgathervOptions options(context);
  options.setInput(words<Word>(what.input), counts[own]);
  options.setOutput(words<Word>(what.output), counts);
  options.setTag(what.tag);
  ::gloo::allgatherv(options);
}

template <typename Word>
void alltoall(const ContextPtr& context, const Collective& what) {
  // Always the general form: equal counts on one rank do not mean equal counts on all, and the forms must match.
  ::gloo::AlltoallvOptions options(context);
  options.setInput(words<Word>(what.input), {what.send_counts.begin(), what.send_counts.end()});
  options.setOutput(words<Word>(what.output), {what.recv_counts.begin(), what.recv_counts.end()});
  options.setTag(what.tag);
  ::gloo::alltoallv(options);
}

template <typename Word>
void run_sized(const ContextPtr& context, const Collective& what, const roda_host* host) {
  switch (what.collective) {
    case RODA_ALLREDUCE:
      return allreduce<Word>(context, what, host);
    case RODA_BROADCAST:
      return broadcast<Word>(context, what);
    case RODA_ALLGATHER:
      return allgather<Word>(context, what);
    default:
      return alltoall<Word>(context, what);
  }
}

void barrier(const ContextPtr& context, const Collective& what) {
  ::gloo::BarrierOptions options(context);
  options.setTag(what.tag);
  ::gloo::barrier(options);
}

}  // namespace

void Collective::assign(const roda_collective_args& args, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  collective = args.collective;
  dtype = args.dtype;
  op = args.op;
  root = args.root;
  input = args.input;
  output = args.output;
  count = args.count;
  send_counts.assign(args.send_counts, args.send_counts != nullptr ? args.send_counts + ranks : nullptr);
  recv_counts.assign(args.recv_counts, args.recv_counts != nullptr ? args.recv_counts + ranks : nullptr);
  // Gloo's tags have 32 bits; those in flight at a time differ in the low ones.
  tag = static_cast<std::uint32_t>(args.tag ^ (args.tag >> 32));
}

bool is_supported(int collective, int dtype, int op) {
  switch (collective) {
    case RODA_ALLREDUCE:
      return roda_dtype_size(dtype) != 0 && (op == RODA_SUM || op == RODA_MIN || op == RODA_MAX || op == RODA_PRODUCT);
    case RODA_BROADCAST:
    case RODA_ALLGATHER:
    case RODA_ALLTOALL:
      return roda_dtype_size(dtype) != 0;
    default:
      return collective == RODA_BARRIER;
  }
}

bool is_trivial(const Collective& what, int size) {
  const std::size_t width = roda_dtype_size(what.dtype);
  std::size_t own = what.count;
  if (what.collective == RODA_BARRIER) return size == 1;
  if (what.collective == RODA_ALLGATHER) own = sum(what.recv_counts);
  // An alltoall without data here may have some elsewhere, and Gloo's matches by pairs: every rank must take part.
  if (what.collective == RODA_ALLTOALL) own = size == 1 ? what.recv_counts[0] : 1;
  if (own == 0) return true;
  if (size > 1) return false;
  if (what.input != nullptr && what.input != what.output) std::memcpy(what.output, what.input, own * width);
  return true;
}

void run(const ContextPtr& context, const Collective& what, const roda_host* host) {
  if (what.collective == RODA_BARRIER) return barrier(context, what);
  switch (roda_dtype_size(what.dtype)) {
    case 1:
      return run_sized<std::uint8_t>(context, what, host);
    case 2:
      return run_sized<std::uint16_t>(context, what, host);
    case 4:
      return run_sized<std::uint32_t>(context, what, host);
    default:
      return run_sized<std::uint64_t>(context, what, host);
  }
}

}  // namespace roda::gloo
