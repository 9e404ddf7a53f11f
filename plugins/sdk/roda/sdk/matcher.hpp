// Which message meets which receive: the ones of one tag in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <vector>

namespace roda::sdk {

// Matches, for one peer, what is awaited (`Waiting`, a receive, with a member `tag`; not owned) with what came first
// (`Early`, a message or an announcement, with a member `tag`; owned, at an address that stays). Where the sender waits
// for receives, the two have each other's part. Once as many early ones have been there as there ever are at a time,
// the matcher allocates no more. One thread at a time.
template <typename Waiting, typename Early>
class Matcher {
 public:
  // --- what is awaited ---
  void await(Waiting* waiting) { waiting_.push_back(waiting); }
  // The oldest of the tag that `fits`, no longer awaited from now on; null when there is none.
  template <typename Fits>
  Waiting* claim(std::uint64_t tag, Fits&& fits) {
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](Waiting* w) { return w->tag == tag && fits(*w); });
    if (found == waiting_.end()) return nullptr;
    Waiting* claimed = *found;
    waiting_.erase(found);
    return claimed;
  }
  Waiting* claim(std::uint64_t tag) {
    return claim(tag, [](const Waiting&) { return true; });
  }
  // `met(Early&)` with the oldest early one of its tag, which is over then. False: there is none, and it is awaited.
  template <typename Met>
  bool post(Waiting* waiting, Met&& met) {
    Early* found = find(waiting->tag);
    if (found == nullptr) {
      await(waiting);
      return false;
    }
    met(*found);
    drop(found);
    return true;
  }
  // True when it was awaited.
  bool withdraw(const Waiting* waiting) { return std::erase(waiting_, waiting) > 0; }
  const std::vector<Waiting*>& awaited() const { return waiting_; }

  // --- what came first ---
  // A new one, to be filled in.
  Early& keep(std::uint64_t tag) {
    if (spare_.empty()) {
      early_.emplace_back();
    } else {
      early_.splice(early_.end(), spare_, spare_.begin());
    }
    early_.back().tag = tag;
    return early_.back();
  }
  // The oldest of the tag that `fits`; null when there is none.
  template <typename Fits>
  Early* find(std::uint64_t tag, Fits&& fits) {
    const auto found = std::find_if(early_.begin(), early_.end(), [&](Early& e) { return e.tag == tag && fits(e); });
    return found != early_.end() ? &*found : nullptr;
  }
  Early* find(std::uint64_t tag) {
    return find(tag, [](const Early&) { return true; });
  }
  // The early message has met its receive: its place may be used again.
  void drop(const Early* early) {
    const auto found = std::find_if(early_.begin(), early_.end(), [&](const Early& e) { return &e == early; });
    if (found == early_.end()) return;
    spare_.splice(spare_.end(), early_, found);
    spare_.back() = Early();
  }
  const std::list<Early>& early() const { return early_; }

  // Nothing is awaited any more; what came stays.
  void forget_awaited() { waiting_.clear(); }

 private:
  std::vector<Waiting*> waiting_;  // in order
  std::list<Early> early_;         // in order
  std::list<Early> spare_;
};

}  // namespace roda::sdk
