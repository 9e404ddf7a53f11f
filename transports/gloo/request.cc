#include "transports/gloo/request.h"

#include <numeric>

namespace roda::gloo {
namespace {

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

bool Request::touches(const void* base, std::size_t bytes, int rank) const {
  if (is_message()) return sdk::overlaps(data_, bytes_, base, bytes);
  const std::size_t width = roda_dtype_size(collective_.dtype);
  std::size_t input = collective_.count, output = collective_.count;
  if (collective_.collective == RODA_BARRIER) return false;
  if (collective_.collective == RODA_ALLGATHER || collective_.collective == RODA_ALLTOALL) {
    output = total(collective_.recv_counts);
    input = collective_.collective == RODA_ALLTOALL ? total(collective_.send_counts)
                                                    : collective_.recv_counts[static_cast<std::size_t>(rank)];
  }
  return sdk::overlaps(collective_.input, input * width, base, bytes) ||
         sdk::overlaps(collective_.output, output * width, base, bytes);
}

}  // namespace roda::gloo
