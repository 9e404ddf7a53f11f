#include "transports/nccl/request.h"

namespace roda::nccl {
namespace {

void take(const std::size_t** counts, int size, std::vector<std::size_t>* kept) {
  kept->clear();
  if (*counts == nullptr) return;
  kept->assign(*counts, *counts + size);
  *counts = kept->data();
}

}  // namespace

void Request::assign(const roda_collective_args& from, int size) {
  args = from;
  take(&args.send_counts, size, &send_counts);
  take(&args.recv_counts, size, &recv_counts);
  state = State::kQueued;
  begin = end = nullptr;
  has_begun = false;
}

bool Request::touches(const void* base, std::size_t bytes) const {
  return state != State::kOver &&
         (sdk::overlaps(args.input, input_bytes, base, bytes) || sdk::overlaps(args.output, output_bytes, base, bytes));
}

}  // namespace roda::nccl
