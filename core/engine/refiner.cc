#include "core/engine/refiner.h"

#include <algorithm>
#include <limits>
#include <span>

namespace roda::engine {

using negotiate::Change;
using negotiate::Choice;
using negotiate::LaunchClass;
using negotiate::Refinement;

double Refiner::Side::median() const {
  if (counted == 0) return 0;
  auto sorted = seconds;
  const auto middle = sorted.begin() + counted / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + counted);
  return *middle;
}

void Refiner::count(Side* side, double seconds) const {
  if (++side->seen <= rules_.warm_up || is_full(*side)) return;
  side->seconds[static_cast<std::size_t>(side->counted++)] = seconds;
}

// But for the slowest of the one and the quickest of the other.
bool Refiner::is_clearly_quicker(const Side& tried, const Side& present) const {
  auto mine = tried.seconds, theirs = present.seconds;
  const auto last = static_cast<std::size_t>(rules_.counted);
  std::sort(mine.begin(), mine.begin() + rules_.counted);
  std::sort(theirs.begin(), theirs.begin() + rules_.counted);
  return mine[last - 2] < theirs[1] && tried.median() * rules_.margin <= present.median();
}

bool Refiner::is_hopeless(const Side& tried, const Side& present) const {
  if (tried.counted < kSoon || present.counted < kSoon) return false;
  const auto of = [](const Side& side) {
    return std::span(side.seconds).first(static_cast<std::size_t>(side.counted));
  };
  return *std::ranges::min_element(of(tried)) > rules_.hopeless * *std::ranges::max_element(of(present));
}

Refinement Refiner::change(Change what, const Key& key, const Watched& w) {
  Refinement r;
  r.set = key.first;
  r.change = what;
  r.of = key.second;
  r.after = w.latest;
  r.option = w.tried;
  r.present = w.present;
  r.option_seconds = w.of_tried.median();
  r.present_seconds = w.of_present.median();
  return r;
}

std::optional<Refinement> Refiner::ended(std::int32_t set, const LaunchClass& of, const Choice& choice,
                                         std::optional<double> seconds, const Candidates& candidates) {
  const auto [found, is_new] = watched_.try_emplace({set, of});
  Watched& w = found->second;
  switch (w.phase) {
    case Phase::kWatching:
      if (!seconds || choice.attempt != 0) return std::nullopt;
      ++w.seen;
      count(&w.of_present, *seconds);
      return look_for_a_try(found->first, &w, candidates);
    case Phase::kTrying: {
      if (choice.attempt != w.latest) return std::nullopt;
      if (seconds) count(choice.is_tried ? &w.of_tried : &w.of_present, *seconds);
      return judge(found->first, &w, choice.index + 1 == rules_.launches);
    }
    default:
      return std::nullopt;
  }
}

// After as many launches as were seen before the try before, and as many again.
std::optional<Refinement> Refiner::look_for_a_try(const Key& key, Watched* w, const Candidates& candidates) const {
  if (w->seen < rules_.patience << w->tries) return std::nullopt;
  if (!w->options) {
    w->options.emplace();
    for (Candidate& candidate : candidates()) w->options->push_back({std::move(candidate)});
    if (!w->options->empty()) w->present = w->options->front().candidate.option;
  }
  Option* option = next_option(w);
  if (option == nullptr) {
    w->phase = Phase::kDone;
    return std::nullopt;
  }
  ++option->tries;
  ++w->tries;
  w->tried = option->candidate.option;
  w->of_tried = Side();
  w->phase = Phase::kAsked;
  Refinement proposal = change(Change::kTry, key, *w);
  proposal.launches = rules_.launches;
  return proposal;
}

// The first of those that were tried least.
Refiner::Option* Refiner::next_option(Watched* w) const {
  if (w->tries >= rules_.most_tries) return nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Option& option : *w->options) least = std::min(least, option.candidate.predicted.value_or(least));
  Option* next = nullptr;
  for (Option& option : *w->options) {
    const auto& predicted = option.candidate.predicted;
    const bool may_run = predicted && *predicted <= least * rules_.most_predicted && !option.is_hopeless &&
                         option.tries < rules_.most_of_one && option.candidate.option != w->present;
    if (may_run && (next == nullptr || option.tries < next->tries)) next = &option;
  }
  return next;
}

std::optional<Refinement> Refiner::judge(const Key& key, Watched* w, bool is_last) const {
  const bool is_full_try = is_full(w->of_tried) && is_full(w->of_present);
  const bool is_lost = is_hopeless(w->of_tried, w->of_present);
  if (!is_full_try && !is_lost && !is_last) return std::nullopt;
  const bool is_won = is_full_try && is_clearly_quicker(w->of_tried, w->of_present);
  for (Option& option : *w->options) {
    if (is_lost && option.candidate.option == w->tried) option.is_hopeless = true;
  }
  w->phase = Phase::kConcluding;
  return change(is_won ? Change::kKeep : Change::kGoBack, key, *w);
}

void Refiner::applied(std::uint64_t number, const Refinement& r) {
  const auto found = watched_.find({r.set, r.of});
  if (found == watched_.end()) return;
  Watched& w = found->second;
  w.latest = number;
  w.of_present = w.of_tried = Side();
  w.seen = 0;
  // A try that was meant for a set of the same number before this one runs its course unjudged.
  const bool is_own_try = r.change == Change::kTry && w.phase == Phase::kAsked && w.tried == r.option;
  w.phase = is_own_try ? Phase::kTrying : Phase::kWatching;
  if (r.change == Change::kKeep) w.present = r.option;
}

void Refiner::forget_set(std::int32_t set) {
  std::erase_if(watched_, [set](const auto& entry) { return entry.first.first == set; });
}

}  // namespace roda::engine
