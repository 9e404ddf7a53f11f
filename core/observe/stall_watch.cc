#include "core/observe/stall_watch.h"

namespace roda::observe {
namespace {

constexpr std::size_t kMostNames = 6;  // per rank, in a report
constexpr std::int32_t kNobody = -1;

}  // namespace

std::optional<StallWatch::Report> StallWatch::look(const std::vector<Waiting>& waiting, Clock::time_point now) {
  std::map<std::pair<std::int32_t, std::string>, Clock::time_point> still;
  std::vector<const Waiting*> stalled;
  bool ends = false;
  std::int32_t culprit = -1;
  for (const Waiting& w : waiting) {
    const std::pair key(w.set, w.name);
    const auto known = since_.find(key);
    const Clock::time_point since = known == since_.end() ? now : known->second;
    still.emplace(key, since);
    if (now - since < warn_) continue;
    stalled.push_back(&w);
    const bool is_over = ends_stalls() && now - since >= shut_down_;
    if (is_over && culprit < 0 && !w.missing.empty()) culprit = w.missing.front();
    ends = ends || is_over;
  }
  since_.swap(still);
  if (stalled.empty() || (!ends && now < next_report_)) return std::nullopt;
  next_report_ = now + warn_;
  return Report{describe(stalled, ends), ends, culprit};
}

std::string StallWatch::describe(const std::vector<const Waiting*>& stalled, bool ends) const {
  std::map<std::int32_t, std::vector<std::string>> missing;
  for (const Waiting* w : stalled) {
    for (const std::int32_t rank : w->missing) missing[rank].push_back(w->name);
    if (w->missing.empty()) missing[kNobody].push_back(w->name);
  }
  std::string text =
      "One or more tensors were submitted to be reduced, gathered or broadcasted by some ranks only; the others have "
      "kept them waiting for more than " +
      std::to_string(warn_.count()) +
      " seconds. Either these ranks are slow, or they never submit the tensors (a branch that not every rank takes, "
      "uneven data), and then the job " +
      (ends_stalls() ? "ends after " + std::to_string(shut_down_.count()) +
                           " seconds (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, 0 for never)"
                     : "waits for ever") +
      ".\nMissing ranks:";
  for (const auto& [rank, names] : missing) {
    text += rank == kNobody ? "\nnot known" : "\n" + std::to_string(rank) + (ends ? "!" : "");
    text += ": [";
    for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i) text += (i ? ", " : "") + names[i];
    text += names.size() > kMostNames ? " ...]" : "]";
  }
  if (ends) {
    text += "\nOne or more rank (marked by \"!\") is stalled for longer than " + std::to_string(shut_down_.count()) +
            " seconds. Will shutdown.";
  }
  return text;
}

}  // namespace roda::observe
