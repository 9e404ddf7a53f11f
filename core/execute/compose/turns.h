// One order, the same on all ranks of a host, of collectives that wait for their peers on the streams of devices.
//
// Launches that are on their way at once become ready for such calls in another order on every rank, and two calls that
// ranks put on their streams in different orders wait for each other for ever. So every rank says what it is ready for,
// all ranks of the host hear that in one order, and a call has its turn once all that take part in it have said so.
// Whose turn it is waits for nothing but those before it, of which the same is true.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "plugins/base/invariant.h"

namespace roda::execute {

class Turns {
 public:
  struct Call {
    std::uint64_t group = 0;  // a number that follows from its name
    std::uint64_t launch = 0;
    std::uint32_t slice = 0;
    std::uint32_t stage = 0;
    bool operator==(const Call&) const = default;
  };

  // This rank is ready for the call, as it stays until the call begins; so many ranks, all of this host, take part.
  // Whether it has its turn. It says so at the first question.
  bool is_next(const Call& call, std::size_t members) {
    if (members == 1) return true;
    if (const auto at = std::ranges::find(order_, call); at != order_.end()) return at == order_.begin();
    Ready& ready = of(call);
    RODA_INVARIANT(ready.count < members, "a call that all are ready for is in the order");
    if (!ready.is_own) unsaid_.push_back({call, members});
    ready.is_own = true;
    return false;
  }

  // It lies on the stream, with all that it consists of, or has ended.
  void pass(const Call& call) {
    if (order_.empty() || !(order_.front() == call)) return;
    order_.pop_front();
    RODA_INVARIANT(order_.empty() || !(order_.front() == call), "a call has one turn");
  }

  // What this rank has to say to all ranks of its host, itself among them; said: it is on its way.
  std::span<const std::byte> unsaid() const { return std::as_bytes(std::span(unsaid_)); }
  void said() { unsaid_.clear(); }
  // What a rank of this host said, in the order that all hear it in.
  void hear(std::span<const std::byte> said) {
    for (Word word; said.size() >= sizeof word; said = said.subspan(sizeof word)) {
      std::memcpy(&word, said.data(), sizeof word);
      Ready& ready = of(word.call);
      RODA_INVARIANT(ready.count < word.members, "each rank says once that it is ready for a call");
      if (++ready.count < word.members) continue;
      if (ready.is_own) order_.push_back(word.call);
      ready = ready_.back();
      ready_.pop_back();
    }
  }

 private:
  struct Word {
    Call call;
    std::uint64_t members = 0;
  };
  struct Ready {
    Call call;
    std::uint64_t count = 0;  // of those that said so
    bool is_own = false;      // this rank takes part
  };
  Ready& of(const Call& call) {
    const auto at = std::ranges::find(ready_, call, &Ready::call);
    return at != ready_.end() ? *at : ready_.emplace_back(Ready{call});
  }

  std::vector<Word> unsaid_;
  std::vector<Ready> ready_;  // not all have said so yet
  std::deque<Call> order_;    // of this rank's
};

}  // namespace roda::execute
