#include "core/negotiate/choices.h"

namespace roda::negotiate {

std::uint64_t Choices::apply(const Refinement& r) {
  const auto found = entries_.find({r.set, r.of});
  const std::uint64_t latest = found == entries_.end() ? 0 : found->second.latest;
  if (r.after != latest) return 0;
  const bool is_try = r.change == Change::kTry;
  if (!is_try && (latest == 0 || found->second.tried == nullptr || *found->second.tried != r.option)) return 0;
  Entry& entry = is_try ? entries_[{r.set, r.of}] : found->second;
  entry.latest = ++changes_;
  if (is_try) {
    entry.tried = &*options_.insert(r.option).first;
    entry.attempt = entry.latest;
    entry.launches = r.launches;
    entry.used = 0;
    return entry.latest;
  }
  if (r.change == Change::kKeep) entry.kept = entry.tried;
  entry.tried = nullptr;
  return entry.latest;
}

Choice Choices::take(std::int32_t set, const LaunchClass& of) {
  const auto found = entries_.find({set, of});
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  if (entry.tried == nullptr || entry.used == entry.launches) return {entry.kept, 0, 0, false};
  const std::uint32_t index = entry.used++;
  const bool is_tried = runs_the_tried(index);
  return {is_tried ? entry.tried : entry.kept, entry.attempt, index, is_tried};
}

void Choices::forget_set(std::int32_t set) {
  std::erase_if(entries_, [set](const auto& entry) { return entry.first.first == set; });
}

}  // namespace roda::negotiate
