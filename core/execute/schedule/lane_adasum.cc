// LaneRun: the products of two vectors, and their adaptive sum. Each tensor has weights of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/execute/schedule/lane_run.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

// Orthogonal vectors are added, parallel ones averaged. A vector that is all but zero leaves the other as it is.
std::pair<double, double> weights(const double* products) {
  const double least = std::sqrt(std::numeric_limits<double>::min());
  const auto weight = [&](double squared) { return squared < least ? 1 : 1 - products[0] / (2 * squared); };
  return {weight(products[1]), weight(products[2])};
}

}  // namespace

// In runs of at most a segment.
Status LaneRun::combine_vectors(const Op& op, Effort* effort, Turn* turn) {
  const bool weighs = op.kind == OpKind::kWeigh;
  const std::size_t count = view_.bytes(op.src) / view_.element;
  const SpaceMap& map = view_.map[RunView::which(op.src.extent)];
  const std::size_t first = map.prefix[static_cast<std::size_t>(op.src.first)] / view_.element;  // of the vector
  auto* products = reinterpret_cast<double*>(weighs ? view_.products : view_.address(op.dst));
  if (!weighs && state_.done == 0) std::fill_n(products, 3 * view_.tensors, 0.0);
  while (state_.done < count) {
    if (effort->budget == 0) {
      *turn = Turn::kBlocked;
      return {};
    }
    const std::size_t from = first + state_.done;
    while (state_.source + 1 < view_.tensors && view_.tensor_begins[state_.source + 1] <= from) ++state_.source;
    const bool is_last = state_.source + 1 == view_.tensors;
    const std::size_t rest = is_last ? count - state_.done : view_.tensor_begins[state_.source + 1] - from;
    const std::size_t run = std::min({rest, count - state_.done, view_.options->segment_bytes / view_.element});
    const std::size_t offset = state_.done * view_.element;
    const char *a = view_.address(op.src) + offset, *b = view_.address(op.other) + offset;
    double* own = products + 3 * state_.source;
    if (weighs) {
      const auto [of_a, of_b] = weights(own);
      cpu::adasum_weigh(view_.address(op.dst) + offset, a, b, run, view_.dtype, of_a, of_b);
    } else {
      cpu::adasum_dots(a, b, run, view_.dtype, own);
    }
    state_.done += run;
    effort->spend(run * view_.element);
  }
  return {};
}

// Both sides of an exchange add the same two numbers, so all ranks come to the same sums.
void LaneRun::add_products(char* dst, const char* a, const char* b, std::size_t bytes) const {
  const roda_host& host = view_.group->context().host();
  host.reduce(host.self, dst, a, b, bytes / sizeof(double), RODA_FLOAT64, RODA_SUM);
}

}  // namespace roda::execute
