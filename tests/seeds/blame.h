// Whom a job's end may be blamed on, and by when all that wait must be told.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "plugins/base/format.h"
#include "plugins/base/status.h"
#include "tests/seeds/machine.h"

namespace roda::seeds {

class Blame {
 public:
  void add(int rank) { culprits_.push_back(rank); }
  // Ranks that lose a connection are seen to lose their others, and may be the first to say so.
  void add_any(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) add(rank);
  }
  void lose_store() { has_lost_store_ = true; }
  bool has(std::size_t rank) const { return std::ranges::find(culprits_, static_cast<int>(rank)) != culprits_.end(); }
  bool is_none() const { return culprits_.empty(); }

  // A rank that pauses may be one through which others are told.
  void pause(Time until) {
    pauses_until_ = std::max(pauses_until_, until);
    if (told_by_ != Time::max()) told_by_ = std::max(told_by_, pauses_until_ + limit_);
  }
  void tell_in(Time now, Time limit) {
    limit_ = limit;
    told_by_ = std::min(told_by_, std::max(now, pauses_until_) + limit);
  }
  bool is_late(Time now) const { return now > told_by_; }

  // What is wrong with an error that ends a rank's job; "": nothing. All of a host name one rank.
  std::string judge(int host, const Status& error) {
    // Other hosts see the end of a host's leader as that of a link.
    const bool is_said = error.message().find(roda::format("ank {}", error.rank())) != std::string::npos;
    if (has_lost_store_ && error.rank() < 0) return "";
    if (!is_said || error.rank() < 0 || !has(static_cast<std::size_t>(error.rank())))
      return "ends with: " + error.message();
    const int first = named_.emplace(host, error.rank()).first->second;
    if (first == error.rank()) return "";
    return roda::format("is told that rank {} is to blame, others of host {} that rank {} is", error.rank(), host,
                        first);
  }

 private:
  std::vector<int> culprits_;
  std::map<int, int> named_;  // by host, by its first rank that is told
  bool has_lost_store_ = false;
  Time told_by_ = Time::max(), limit_{}, pauses_until_{};
};

}  // namespace roda::seeds
