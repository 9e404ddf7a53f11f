// LaneRun: copies and reductions of local and of peers' memory, and puts.
#include <algorithm>

#include "core/execute/schedule/lane_run.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

// Small enough to be still in the second cache when it is copied, large enough that whole lines are written in bursts.
constexpr std::size_t kTile = 128 << 10;

}  // namespace

void LaneRun::map_sources(const Op& op) {
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
Status LaneRun::combine_mapped(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  const bool in_block = op.sources > 1 && view_.staged && !view_.in_user(op.dst);
  char* dst = view_.address(op.dst);
  char* published = view_.published(op);
  const bool in_tiles = in_block || published != nullptr;
  while (state_.done < total) {
    if (effort->budget == 0) {
      *turn = Turn::kBlocked;
      return {};
    }
    const std::size_t share = std::max(effort->budget / op.sources, kLine) / kLine * kLine;
    const std::size_t bytes = std::min({share, total - state_.done, in_tiles ? kTile : total});
    char* to = in_block ? bounce(0, kTile) : dst + state_.done;
    if (op.sources == 1) {
      copy(to, static_cast<const char*>(mapped_[0]), bytes);
    } else {
      const int code = cpu::reduce_many(to, mapped_.data(), static_cast<int>(op.sources), bytes / view_.element,
                                        view_.dtype, view_.op);
      if (code != RODA_OK) return no_reduction(code);
    }
    if (in_block) copy(dst + state_.done, to, bytes);
    if (published != nullptr) copy(published + state_.done, to, bytes);
    for (const void*& from : mapped_) from = static_cast<const char*>(from) + bytes;
    state_.done += bytes;
    effort->spend(bytes * op.sources);
  }
  return {};
}

// Source after source, remote ones fetched in blocks. A local first source joins the first reduction.
Status LaneRun::combine_by_gets(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  const bool joins = op.sources > 1 && source(op, 0).peer < 0;
  if (joins && state_.source == 0) state_.source = 1;
  while (state_.source < op.sources) {
    const Source& from = source(op, state_.source);
    if (from.peer >= 0) {
      RODA_RETURN_IF_ERROR(get_source(op, from, effort, turn));
      if (*turn == Turn::kBlocked) return {};
    }
    while (from.peer < 0 && state_.done < total) {
      if (effort->budget == 0) {
        *turn = Turn::kBlocked;
        return {};
      }
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
  if (char* published = view_.published(op)) copy(published, view_.address(op.dst), total);
  return {};
}

Status LaneRun::get_source(const Op& op, const Source& from, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  const std::size_t block = view_.options->get_bytes;
  const bool into_place = state_.source == 0;
  const std::uint32_t most = into_place ? kMostPending : 2;
  char* dst = view_.address(op.dst);
  while (state_.done < total) {
    while (count_ < most && state_.posted < total) {
      const std::size_t bytes = std::min(block, total - state_.posted);
      char* to =
          into_place ? dst + state_.posted : bounce(static_cast<std::uint32_t>(state_.posted / block % 2), block);
      roda_request* request = nullptr;
      const int code = view_.group->get(from.peer, view_.window(from.operand),
                                        view_.window_offset(from.operand) + state_.posted, to, bytes, &request);
      if (code == RODA_AGAIN) break;
      RODA_RETURN_IF_ERROR(view_.group->error(code));
      push(request, state_.posted, bytes);
      state_.posted += bytes;
    }
    Pending finished;
    bool got = false;
    if (effort->budget > 0) RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
    if (!into_place) {
      const char* first =
          state_.source == 1 && source(op, 0).peer < 0 ? local(0) + finished.offset : dst + finished.offset;
      const char* data = bounce(static_cast<std::uint32_t>(finished.offset / block % 2), block);
      RODA_RETURN_IF_ERROR(reduce(dst + finished.offset, first, data, finished.bytes));
    }
    state_.done += finished.bytes;
  }
  return {};
}

Status LaneRun::put(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.src);
  const char* src = view_.address(op.src);
  const std::size_t offset = view_.window_offset(op.dst);
  while (state_.done < total) {
    if (effort->budget == 0) {
      *turn = Turn::kBlocked;
      return {};
    }
    if (state_.mapped) {
      char* base = static_cast<char*>(view_.group->map(op.peer, view_.window(op.dst)));
      const std::size_t bytes = std::min(effort->budget, total - state_.done);
      copy(base + offset + state_.done, src + state_.done, bytes);
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
      push(request, state_.posted, bytes);
      state_.posted += bytes;
    }
    Pending finished;
    bool got = false;
    RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
    state_.done += finished.bytes;
  }
  return {};
}

}  // namespace roda::execute
