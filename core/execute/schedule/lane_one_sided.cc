// LaneRun: what is read and written where it lies: copies and reductions of local and of peers' memory, puts, and
// Adasum's vectors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/execute/schedule/lane_run.h"
#include "plugins/base/invariant.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

// Small enough to be still in the second cache when it is copied, large enough that whole lines are written in bursts.
constexpr std::size_t kTile = 128 << 10;

// Adasum's two factors: orthogonal vectors are added, parallel ones averaged. A vector that is all but zero leaves the
// other as it is.
std::pair<double, double> weights(const double* products) {
  const double least = std::sqrt(std::numeric_limits<double>::min());
  const auto weight = [&](double squared) { return squared < least ? 1 : 1 - products[0] / (2 * squared); };
  return {weight(products[1]), weight(products[2])};
}

}  // namespace

void LaneRun::map_sources(const Op& op) {
  RODA_INVARIANT(op.source + op.sources <= view_.program->sources.size(), "an op's sources are its program's");
  mapped_.clear();
  state_.mapped = true;
  for (std::uint32_t s = 0; s < op.sources; ++s) {
    const Source& from = source(op, s);
    const char* data = nullptr;
    if (from.peer < 0) {
      data = view_.address(from.operand);
    } else if (const char* base = static_cast<const char*>(view_.group->map(from.peer, view_.window(from.operand)))) {
      data = base + view_.window_offset(from.operand);
    } else {
      state_.mapped = false;
    }
    mapped_.push_back(data);
  }
}

// All operands are addressable: one pass over all of them. What peers will read is made in private memory and copied to
// them tile by tile: a copy writes whole lines without fetching them, while a reduction's stores would first have to
// get each line back from the cache of the peer that read it last.
Status LaneRun::combine_mapped(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.dst);
  RODA_INVARIANT(state_.done <= total && mapped_.size() == op.sources, "what is combined lies somewhere");
  const bool to_block = !view_.in_user(op.dst);
  const bool in_block = op.sources > 1 && to_block;
  char* dst = view_.address(op.dst);
  char* published = view_.published(op);
  const bool in_tiles = in_block || published != nullptr;
  const bool scales = op.sources > 1 && view_.sum_factor != 1.0;
  const bool far = (to_block || published != nullptr) && view_.goes_far(op.dst.space, op.dst.first, op.dst.count);
  if (in_block) RODA_RETURN_IF_ERROR(reserve_bounce(kTile));
  while (state_.done < total) {
    if (effort->budget == 0) return {};
    const std::size_t share = std::max(effort->budget / op.sources, kLine) / kLine * kLine;
    const std::size_t bytes = std::min({share, total - state_.done, in_tiles || scales ? kTile : total});
    char* to = in_block ? bounce(0, kTile) : dst + state_.done;
    if (op.sources == 1) {
      copy(to, static_cast<const char*>(mapped_[0]), bytes, view_.streams || (far && to_block));
    } else {
      const int code = cpu::reduce_many(to, mapped_.data(), static_cast<int>(op.sources), bytes / view_.element,
                                        view_.dtype, view_.op);
      if (code != RODA_OK) return no_reduction(code);
      RODA_RETURN_IF_ERROR(scale(to, bytes));
    }
    if (in_block) copy(dst + state_.done, to, bytes, far);
    if (published != nullptr) copy(published + state_.done, to, bytes, far);
    for (const void*& from : mapped_) from = static_cast<const char*>(from) + bytes;
    state_.done += bytes;
    effort->spend(bytes * op.sources);
  }
  *done = true;
  return {};
}

// Source after source, remote ones fetched in blocks. A local first source joins the first reduction.
Status LaneRun::combine_by_gets(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.dst);
  RODA_INVARIANT(state_.source < op.sources || op.sources == 0, "a source is fetched once");
  const bool joins = op.sources > 1 && source(op, 0).peer < 0;
  if (joins && state_.source == 0) state_.source = 1;
  while (state_.source < op.sources) {
    const Source& from = source(op, state_.source);
    if (from.peer >= 0) {
      bool fetched = false;
      RODA_RETURN_IF_ERROR(get_source(op, from, effort, &fetched));
      if (!fetched) return {};
    }
    while (from.peer < 0 && state_.done < total) {
      if (effort->budget == 0) return {};
      const std::size_t bytes = std::min(std::max(effort->budget, kLine) / kLine * kLine, total - state_.done);
      char* to = view_.address(op.dst) + state_.done;
      const char* data = local(state_.source) + state_.done;
      if (state_.source == 0) {
        copy(to, data, bytes);
      } else {
        RODA_RETURN_IF_ERROR(reduce(to, joins && state_.source == 1 ? local(0) + state_.done : to, data, bytes));
      }
      state_.done += bytes;
      effort->spend(bytes);
    }
    ++state_.source;
    state_.posted = state_.done = 0;
  }
  if (op.sources > 1) RODA_RETURN_IF_ERROR(scale(view_.address(op.dst), total));
  if (char* published = view_.published(op)) {
    copy(published, view_.address(op.dst), total, view_.goes_far(op.dst.space, op.dst.first, op.dst.count));
  }
  *done = true;
  return {};
}

Status LaneRun::get_source(const Op& op, const Source& from, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.dst);
  RODA_INVARIANT(state_.done <= state_.posted && state_.posted <= total, "no more is fetched than was asked for");
  const std::size_t block = view_.options->get_bytes;
  const bool into_place = state_.source == 0;
  const std::uint32_t most = into_place ? kMostPending : 2;
  char* dst = view_.address(op.dst);
  if (!into_place) RODA_RETURN_IF_ERROR(reserve_bounce(block));
  while (state_.done < total) {
    while (count_ < most && state_.posted < total) {
      const std::size_t bytes = std::min(block, total - state_.posted);
      char* to = into_place ? dst + state_.posted : bounce(state_.posted, block);
      roda_request* request = nullptr;
      const int code = view_.group->get(from.peer, view_.window(from.operand),
                                        view_.window_offset(from.operand) + state_.posted, to, bytes, &request);
      if (code == RODA_AGAIN) break;
      RODA_RETURN_IF_ERROR(view_.group->error(code));
      push(request, bytes);
    }
    std::optional<Pending> finished;
    if (effort->budget > 0) RODA_RETURN_IF_ERROR(reap(effort, &finished));
    if (!finished) return {};
    if (!into_place) {
      char* to = dst + finished->offset;
      const bool joins_local = state_.source == 1 && source(op, 0).peer < 0;
      const char* first = joins_local ? local(0) + finished->offset : to;
      RODA_RETURN_IF_ERROR(reduce(to, first, bounce(finished->offset, block), finished->bytes));
    }
    state_.done += finished->bytes;
  }
  *done = true;
  return {};
}

Status LaneRun::put(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.src);
  RODA_INVARIANT(state_.mapped ? count_ == 0 : state_.done <= state_.posted, "no more is put than was asked for");
  const char* src = view_.address(op.src);
  const std::size_t offset = view_.window_offset(op.dst);
  while (state_.done < total) {
    if (effort->budget == 0) return {};
    if (state_.mapped) {
      char* base = static_cast<char*>(view_.group->map(op.peer, view_.window(op.dst)));
      const std::size_t bytes = std::min(effort->budget, total - state_.done);
      copy(base + offset + state_.done, src + state_.done, bytes, view_.any_far && view_.far[index(op.peer)]);
      state_.done += bytes;
      effort->spend(bytes);
      continue;
    }
    while (count_ < kMostPending && state_.posted < total) {
      const std::size_t bytes = std::min(view_.options->get_bytes, total - state_.posted);
      roda_request* request = nullptr;
      const int code =
          view_.group->put(op.peer, view_.window(op.dst), offset + state_.posted, src + state_.posted, bytes, &request);
      if (code == RODA_AGAIN) break;
      RODA_RETURN_IF_ERROR(view_.group->error(code));
      push(request, bytes);
    }
    std::optional<Pending> finished;
    RODA_RETURN_IF_ERROR(reap(effort, &finished));
    if (!finished) return {};
    state_.done += finished->bytes;
  }
  *done = true;
  return {};
}

// In runs of at most a segment; each tensor has weights of its own.
Status LaneRun::combine_vectors(const Op& op, Effort* effort, bool* done) {
  const bool weighs = op.kind == OpKind::kWeigh;
  const std::size_t count = view_.bytes(op.src) / view_.element;
  RODA_INVARIANT(count == 0 || state_.source < view_.tensors, "a vector is of tensors");
  const SpaceMap& map = view_.chunks(op.src);
  const std::size_t first = map.prefix[index(op.src.first)] / view_.element;  // of the vector
  auto* products = reinterpret_cast<double*>(weighs ? view_.products : view_.address(op.dst));
  if (!weighs && state_.done == 0) std::fill_n(products, 3 * view_.tensors, 0.0);
  while (state_.done < count) {
    if (effort->budget == 0) return {};
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
  *done = true;
  return {};
}

}  // namespace roda::execute
