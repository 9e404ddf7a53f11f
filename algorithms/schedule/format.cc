#include "algorithms/schedule/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/index.h"
#include "algorithms/schedule/build.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule {
namespace {

bool has(const Range& range, Space space, std::int32_t chunk) { return overlap(range, {space, chunk, 1}); }

// Whether the rank goes on with the chunk as it is before step `next` of the lane.
bool is_kept(const std::vector<Step>& steps, std::size_t next, Space space, std::int32_t chunk) {
  for (std::size_t i = next; i < steps.size(); ++i) {
    const Step& later = steps[i];
    if (later.kind == StepKind::kSend) {
      if (has(later.src, space, chunk)) return true;  // and must be rounded as now
      continue;
    }
    const bool is_read =
        has(later.src, space, chunk) || (later.kind == StepKind::kReduce && has(later.dst, space, chunk));
    if (is_read) return true;
    if (has(later.dst, space, chunk)) return false;
  }
  return space == Space::kOutput;
}

bool is_message(const Step& step) {
  return needs_of(step.kind) == kNeedsMessages && step.src.count + step.dst.count > 0;
}

// Blocks of the ranks have any length, so each goes by itself: its blocks of a format begin where it does, whoever
// passes it on beside which others.
std::vector<Step> one_chunk_each(const std::vector<Step>& steps) {
  std::vector<Step> made;
  for (const Step& step : steps) {
    const std::int32_t count = is_message(step) ? std::max(step.src.count, step.dst.count) : 1;
    for (std::int32_t i = 0; i < count; ++i) {
      Step& part = made.emplace_back(step);
      for (Range* range : {&part.src, &part.dst}) {
        if (count > 1 && range->count > 0) *range = {range->space, range->first + i, 1};
      }
    }
  }
  return made;
}

// One lane. A chunk that came by a formatted message is rounded already, until it is written over.
class Formatter {
 public:
  Formatter(const std::vector<Step>& steps, std::int32_t format, int size)
      : steps_(steps), format_(format), size_(size) {}

  // `own`: chunks of contributions that are rounded where the rank goes on with them, once others have been sent.
  std::vector<Step> run(std::int32_t own) {
    bool has_begun = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Step step = steps_[i];
      if (step.kind != StepKind::kSend && !std::exchange(has_begun, true)) round_own(i, own);
      if (step.kind == StepKind::kSend && must_round(i)) {
        made_.push_back(step::round(step.src, format_));
        mark(step.src, true);
      }
      if (is_message(step)) step.format = format_;
      step.lost_of = step.kind == StepKind::kSend && is_message(step) && is_unrounded(step.src) ? 1 : 0;
      made_.push_back(step);
      if (writes_locally(step.kind)) mark(step.dst, step.kind == StepKind::kRecv);
    }
    return std::move(made_);
  }

 private:
  bool is_rounded(Space space, std::int32_t chunk) const {
    const auto known = rounded_.find({space, chunk});
    return known != rounded_.end() && known->second;
  }

  bool is_unrounded(const Range& range) const {
    for (std::int32_t chunk = range.first; chunk < range.first + range.count; ++chunk) {
      if (is_rounded(range.space, chunk)) return false;
    }
    return true;
  }

  bool must_round(std::size_t step) const {
    const Range& sent = steps_[step].src;
    for (std::int32_t chunk = sent.first; chunk < sent.first + sent.count; ++chunk) {
      if (!is_rounded(sent.space, chunk) && is_kept(steps_, step + 1, sent.space, chunk)) return true;
    }
    return false;
  }

  void round_own(std::size_t next, std::int32_t chunks) {
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
      if (rounded_.contains({Space::kOutput, chunk}) || !is_kept(steps_, next, Space::kOutput, chunk)) continue;
      made_.push_back(step::round(output(chunk), format_, size_));  // the sum is rounded here, too
      mark(output(chunk), true);
    }
  }

  void mark(const Range& range, bool rounded) {
    for (std::int32_t chunk = range.first; chunk < range.first + range.count; ++chunk) {
      rounded_[{range.space, chunk}] = rounded;
    }
  }

  const std::vector<Step>& steps_;
  const std::int32_t format_, size_;
  std::vector<Step> made_;
  std::map<std::pair<Space, std::int32_t>, bool> rounded_;
};

Rounding prove(const Algorithm& formatted, int size) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(formatted.make(rank, size, 0));
  Rounding proved;
  if (const auto wrong = verify(ranks, &proved.most)) proved.wrong = wrong->to_text();
  return proved;
}

struct Formatted {
  std::string name;
  Algorithm algorithm;
};

// Who owns a part of an allreduce's data follows from where it lies in a bucket; of scattered data, from the data.
bool rounds_own(const Algorithm& base) { return base.in_rank_order && is_allreduction(base.collective); }

// Every algorithm that can have a format, in each.
std::deque<Formatted> all_formatted() {
  std::deque<Formatted> all;
  for (const Algorithm* base : algorithms()) {
    for (std::int32_t format = 1; format < RODA_WIRE_FORMAT_COUNT && unformattable(*base).empty(); ++format) {
      Formatted& made = all.emplace_back();
      made.name = base->name + std::string("/") + roda_wire_formats[format].name;
      made.algorithm = *base;
      made.algorithm.name = made.name.c_str();
      made.algorithm.format = format;
      made.algorithm.in_rank_order = false;  // its bits are no other algorithm's
      made.algorithm.make = [base, format, name = made.name](int rank, int size, int root) {
        Schedule schedule = with_format(base->make(rank, size, root), format, rounds_own(*base));
        schedule.algorithm = name;
        return schedule;
      };
      made.algorithm.accepts = [base, &made](int size) {
        return size <= kMostFormatted && base->accepts(size) && rounding_of(made.algorithm, size).wrong.empty();
      };
    }
  }
  return all;
}

}  // namespace

Schedule with_format(Schedule schedule, std::int32_t format, bool rounds_own) {
  const std::int32_t own = rounds_own ? schedule.chunks : 0;
  for (Lane& lane : schedule.lanes) {
    if (!is_cut(schedule.collective)) lane.steps = one_chunk_each(lane.steps);
    lane.steps = Formatter(lane.steps, format, schedule.size).run(own);
  }
  return schedule;
}

std::optional<std::int32_t> find_format(std::string_view name) {
  for (std::int32_t format = 1; format < RODA_WIRE_FORMAT_COUNT; ++format) {
    if (name == roda_wire_formats[format].name) return format;
  }
  return std::nullopt;
}

std::string unformattable(const Algorithm& algorithm) {
  if (!can_have_format(algorithm.collective)) {
    return std::string("formats are for allreduce, reducescatter and allgather, not for ") +
           collective_name(algorithm.collective);
  }
  if (is_one_sided(algorithm.needs)) {
    return std::string(algorithm.name) + " works on its peers' memory and sends nothing that could have a format";
  }
  return "";
}

bool rounds_apart(const Algorithm& formatted, int size) {
  const std::string name(formatted.name);
  const Algorithm* drawn = find_formatted(formatted.collective, name.substr(0, name.find('/')) + "/int8_stochastic");
  return drawn != nullptr && rounding_of(*drawn, size).wrong.empty();
}

const Algorithm* find_formatted(Collective collective, std::string_view name) {
  if (name.find('/') == std::string_view::npos) return nullptr;
  static const std::deque<Formatted> all = all_formatted();
  const auto found = std::ranges::find_if(all, [&](const Formatted& formatted) {
    return formatted.algorithm.collective == collective && formatted.name == name;
  });
  return found == all.end() ? nullptr : &found->algorithm;
}

// All formats that round alike have the same proof.
const Rounding& rounding_of(const Algorithm& formatted, int size) {
  static std::mutex mutex;
  static std::map<std::tuple<Collective, std::string_view, bool, int>, Rounding> proved;
  const std::string_view name(formatted.name);
  const bool is_stochastic = roda_wire_formats[formatted.format].is_stochastic != 0;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] =
      proved.try_emplace({formatted.collective, name.substr(0, name.find('/')), is_stochastic, size});
  if (is_new) found->second = prove(formatted, size);
  return found->second;
}

double error_bound(std::int32_t format, int roundings) {
  return std::pow(1 + roda_wire_formats[format].error, roundings) - 1;
}

std::string beyond_bound(double bound, std::int32_t format, int roundings) {
  const double proved = error_bound(format, roundings);
  if (proved <= bound) return "";
  const auto digits = [](double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g", number);
    return std::string(text.data());
  };
  std::string others;
  for (std::int32_t other = 1; other < RODA_WIRE_FORMAT_COUNT; ++other) {
    const double least = error_bound(other, roundings);
    if (least > bound || roda_wire_formats[other].is_stochastic != 0) continue;
    others += (others.empty() ? "" : ", ") + std::string(roda_wire_formats[other].name) + " (" + digits(least) + ")";
  }
  return roda_wire_formats[format].name + std::string(" rounds a contribution ") + std::to_string(roundings) +
         (roundings == 1 ? " time" : " times") + ", which is proved to be off by up to " + digits(proved) +
         ", and HOROVOD_WIRE_BOUND allows " + digits(bound) + ": take " + (others.empty() ? "no format" : others) +
         ", or raise the bound";
}

}  // namespace roda::schedule
