// What the negotiator tells of all that waits for ranks.
#include <algorithm>
#include <string>
#include <utility>

#include "core/negotiate/negotiator.h"

namespace roda::negotiate {

std::vector<Negotiator::Waiting> Negotiator::waiting() const {
  std::vector<Waiting> out;
  for (const auto& [id, set] : sets_) {
    auto report = [&, id = id, &set = set](const std::string& name, auto has) {
      Waiting w{id, name, {}};
      for (int m = 0; m < set.size(); ++m) {
        if (!has(m) && !set.joined.contains(m)) w.missing.push_back(set.members.rank(m));
      }
      out.push_back(std::move(w));
    };
    for (const auto& [name, pending] : set.pending) {
      report(name, [&p = pending](int m) { return p.requests[static_cast<std::size_t>(m)] != nullptr; });
    }
    for (int bit = 0; bit < set.cache.slots(); ++bit) {
      const Cache::Slot& slot = set.cache.slot(bit);
      if (slot.agreed == nullptr || slot.arrived.empty()) continue;
      report(slot.agreed->name, [&slot](int m) { return slot.arrived.contains(m); });
    }
    add_held_groups(set, &out);
  }
  for (const auto& [ranks, who] : add_votes_) add_vote(ranks, "to be added", who, &out);
  for (const auto& [id, who] : remove_votes_) {
    if (has_set(id.front())) add_vote(members(id.front()), "to be removed", who, &out);
  }
  return out;
}

void Negotiator::add_vote(const std::vector<std::int32_t>& ranks, const char* what, const std::set<std::int32_t>& who,
                          std::vector<Waiting>* out) const {
  std::string name = "the process set of the ranks";
  for (const std::int32_t rank : ranks) name += (rank == ranks.front() ? " " : ", ") + std::to_string(rank);
  Waiting waiting{0, name + ", " + what, {}};
  for (std::int32_t rank = 0; rank < settings_.size; ++rank) {
    if (who.count(rank) == 0) waiting.missing.push_back(rank);
  }
  out->push_back(std::move(waiting));
}

// Where a member of the group is pending, that says it all.
void Negotiator::add_held_groups(const Set& set, std::vector<Waiting>* out) {
  for (const Groups::Held& held : set.groups.held()) {
    const bool is_pending = std::ranges::any_of(set.pending, [&held](const auto& entry) {
      const auto& requests = entry.second.requests;
      return std::ranges::any_of(
          requests, [&held](const auto& request) { return request != nullptr && request->group.id == held.id; });
    });
    if (is_pending) continue;
    out->push_back({set.id,
                    held.first->name + " (agreed on, but not " + std::to_string(held.missing) + " of the " +
                        std::to_string(held.first->group.size) +
                        " tensors of its group, which this rank submitted in another call)",
                    set.groups.last_apart()});
  }
}

}  // namespace roda::negotiate
