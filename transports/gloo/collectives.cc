#include "transports/gloo/collectives.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

namespace roda::gloo {
namespace {

using ContextPtr = std::shared_ptr<::gloo::Context>;
using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

constexpr std::size_t kBcubeBytes = 128 * 1024;

// Gloo's tags have 32 bits; those in flight at a time differ in the low ones.
std::uint32_t tag_of(const roda_collective_args& what) {
  return static_cast<std::uint32_t>(what.tag ^ (what.tag >> 32));
}

// One run. Gloo's options are templates, but only the element's size matters, since reductions come as a function:
// `Word` is any type of that size. Input and output are made here, so that waits on them can be ended; the options,
// which own them, are declared before the guards.
template <typename Word>
class Run {
 public:
  Run(const ContextPtr& context, const roda_collective_args& what, const roda_host* host, Waits* waits)
      : context_(context),
        what_(what),
        host_(host),
        waits_(*waits),
        elements_(sdk::elements_of(what, context->rank, context->size)),
        input_(make(what.input, elements_.input)),
        output_(make(what.output, elements_.output)),
        raw_input_(input_.get()),
        raw_output_(output_.get()) {}

  void operator()() {
    switch (what_.collective) {
      case RODA_ALLREDUCE:
        return allreduce();
      case RODA_BROADCAST:
        return broadcast();
      case RODA_ALLGATHER:
        return allgather();
      default:
        return alltoall();
    }
  }

 private:
  Buffer make(const void* data, std::size_t count) const {
    return context_->createUnboundBuffer(const_cast<void*>(data), count * sizeof(Word));
  }
  template <typename Count = std::size_t>
  std::vector<Count> counts_of(const std::size_t* counts) const {
    return {counts, counts + context_->size};
  }
  bool has_input() const { return what_.input != nullptr && what_.input != what_.output; }

  template <typename Options, typename Function>
  void go(Options& options, Function function) {
    options.setTag(tag_of(what_));
    const Waits::Guard input(waits_, raw_input_), output(waits_, raw_output_);
    function(options);
  }

  // Measured on one host, 2 to 4 ranks: Gloo's ring sends two segments per rank and step, which costs more than BCUBE's
  // few messages until bandwidth counts; a handful of elements leaves most of the ring's segments empty and unsent.
  ::gloo::AllreduceOptions::Algorithm choose() const {
    const bool fills_the_ring = what_.count >= 4 * static_cast<std::size_t>(context_->size);
    const bool is_small = what_.count * sizeof(Word) <= kBcubeBytes;
    return fills_the_ring && is_small ? ::gloo::AllreduceOptions::Algorithm::BCUBE
                                      : ::gloo::AllreduceOptions::Algorithm::RING;
  }

  void allreduce() {
    const Buffer kept = has_input() ? nullptr : std::move(input_);
    ::gloo::AllreduceOptions options(context_);
    if (has_input()) options.setInput<Word>(std::move(input_));
    options.setOutput<Word>(std::move(output_));
    options.setAlgorithm(choose());
    const int dtype = what_.dtype, op = what_.op;
    options.setReduceFunction([host = host_, dtype, op](void* dst, const void* a, const void* b, std::size_t count) {
      if (host->reduce(host->self, dst, a, b, count, dtype, op) == RODA_OK) return;
      throw sdk::Failure(RODA_ERR_UNSUPPORTED,
                         std::string("no ") + roda_reduce_op_name(op) + " of " + roda_dtype_name(dtype));
    });
    go(options, [](::gloo::AllreduceOptions& o) { ::gloo::allreduce(o); });
  }

  void broadcast() {
    const bool from_input = has_input() && context_->rank == what_.root;
    const Buffer kept = from_input ? nullptr : std::move(input_);
    ::gloo::BroadcastOptions options(context_);
    if (from_input) options.setInput<Word>(std::move(input_));
    options.setOutput<Word>(std::move(output_));
    options.setRoot(what_.root);
    go(options, [](::gloo::BroadcastOptions& o) { ::gloo::broadcast(o); });
  }

  void allgather() {
    const std::vector<std::size_t> counts = counts_of(what_.recv_counts);
    if (std::all_of(counts.begin(), counts.end(), [&](std::size_t count) { return count == counts[0]; })) {
      ::gloo::AllgatherOptions options(context_);
      options.setInput<Word>(std::move(input_));
      options.setOutput<Word>(std::move(output_));
      return go(options, [](::gloo::AllgatherOptions& o) { ::gloo::allgather(o); });
    }
    ::gloo::AllgathervOptions options(context_);
    options.setInput<Word>(std::move(input_));
    options.setOutput<Word>(std::move(output_), counts);
    go(options, [](::gloo::AllgathervOptions& o) { ::gloo::allgatherv(o); });
  }

  // Always the general form: equal counts on one rank do not mean equal counts on all, and the forms must match.
  void alltoall() {
    ::gloo::AlltoallvOptions options(context_);
    options.setInput<Word>(std::move(input_), counts_of<std::int64_t>(what_.send_counts));
    options.setOutput<Word>(std::move(output_), counts_of<std::int64_t>(what_.recv_counts));
    go(options, [](::gloo::AlltoallvOptions& o) { ::gloo::alltoallv(o); });
  }

  const ContextPtr& context_;
  const roda_collective_args& what_;
  const roda_host* const host_;
  Waits& waits_;
  const sdk::Elements elements_;
  Buffer input_;
  Buffer output_;
  ::gloo::transport::UnboundBuffer* const raw_input_;
  ::gloo::transport::UnboundBuffer* const raw_output_;
};

void barrier(const ContextPtr& context, const roda_collective_args& what) {
  ::gloo::BarrierOptions options(context);
  options.setTag(tag_of(what));
  ::gloo::barrier(options);
}

}  // namespace

void run(const ContextPtr& context, const roda_collective_args& what, const roda_host* host, Waits* waits) {
  if (what.collective == RODA_BARRIER) return barrier(context, what);
  switch (roda_dtype_size(what.dtype)) {
    case 1:
      return Run<std::uint8_t>(context, what, host, waits)();
    case 2:
      return Run<std::uint16_t>(context, what, host, waits)();
    case 4:
      return Run<std::uint32_t>(context, what, host, waits)();
    default:
      return Run<std::uint64_t>(context, what, host, waits)();
  }
}

}  // namespace roda::gloo
