// Algorithms that a user brings, in files or from plugins. Nothing of them is believed: a size is accepted once the
// verifier has proved the schedules of all its ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// What a user says.
struct Draft {
  std::string name;     // lower case letters, digits and '_'
  std::string summary;  // one line
  std::string source;   // the file or plugin that it is from
  std::string digest;   // equal where the algorithm is
  Collective collective = Collective::kAllreduce;
  std::function<bool(int size)> accepts;
  // The schedule of a rank, for root 0 (other roots are the same ranks counted from the root); else why there is none.
  std::function<std::optional<std::string>(int rank, int size, Schedule* schedule)> make;
};

// Threads: any.
class UserAlgorithm {
 public:
  explicit UserAlgorithm(Draft draft);

  const std::string& name() const { return draft_.name; }
  const std::string& source() const { return draft_.source; }
  const std::string& digest() const { return draft_.digest; }
  Collective collective() const { return draft_.collective; }

  // As one of ours. Lives as long as this.
  const Algorithm& algorithm() const { return algorithm_; }
  // Why it can't run on so many ranks, with rank, lane and step where the verifier objects; nullopt: it is proved. The
  // first size that is proved settles what transports must offer; others may not need more.
  std::optional<std::string> wrong_with(int size) const;
  // Whether it says that it runs on so many ranks, right or wrong.
  bool is_meant_for(int size) const { return size >= 1 && draft_.accepts(size); }

 private:
  struct Proof {
    std::optional<std::string> wrong;
    std::vector<Schedule> ranks;  // empty when wrong
  };
  const Proof& proof(int size) const;
  Proof prove(int size) const;
  Schedule make(int rank, int size, int root) const;

  Draft draft_;
  mutable Algorithm algorithm_;
  mutable std::mutex mutex_;
  mutable std::map<int, Proof> proofs_;  // guarded by mutex_; entries stay
};

// The schedule with its ranks counted on by `by`: rank r does what rank r - by did.
Schedule turned(const Schedule& schedule, int by);

// Why an algorithm of the user's can't have this name: it is none, or one of ours has it; nullopt: it can.
std::optional<std::string> wrong_name(Collective collective, const std::string& name);

// What find_algorithm() finds besides ours, in place of what was set before. What was set stays valid. Any thread.
void set_user_algorithms(std::vector<std::shared_ptr<const UserAlgorithm>> algorithms);
std::vector<std::shared_ptr<const UserAlgorithm>> user_algorithms();

}  // namespace roda::schedule
