#include "transports/gloo/request.h"

#include <numeric>

namespace roda::gloo {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* first = static_cast<const char*>(a);
  const auto* second = static_cast<const char*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

bool Request::touches(const void* base, std::size_t bytes, int rank) const {
  if (is_message()) return overlap(data_, bytes_, base, bytes);
  const std::size_t width = roda_dtype_size(collective_.dtype);
  std::size_t input = collective_.count, output = collective_.count;
  if (collective_.collective == RODA_BARRIER) return false;
  if (collective_.collective == RODA_ALLGATHER || collective_.collective == RODA_ALLTOALL) {
    output = total(collective_.recv_counts);
    input = collective_.collective == RODA_ALLTOALL ? total(collective_.send_counts)
                                                    : collective_.recv_counts[static_cast<std::size_t>(rank)];
  }
  return overlap(collective_.input, input * width, base, bytes) ||
         overlap(collective_.output, output * width, base, bytes);
}

}  // namespace roda::gloo
