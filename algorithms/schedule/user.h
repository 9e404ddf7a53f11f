// Algorithms that a user brings in files. Nothing of them is believed: a size is accepted once the verifier has proved
// the schedules of all its ranks.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// Threads: any.
class UserAlgorithm {
 public:
  // What the files say, by the number of ranks: every rank's schedule for root 0 (other roots are the same ranks
  // counted from the root).
  using BySize = std::map<int, std::vector<Schedule>>;

  // `name`: lower case letters, digits and '_'. `source`: the files. `digest`: equal where the algorithm is.
  UserAlgorithm(Collective collective, std::string name, std::string source, std::string digest, BySize sizes);

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  const std::string& digest() const { return digest_; }
  Collective collective() const { return algorithm_.collective; }

  // As one of ours. Lives as long as this.
  const Algorithm& algorithm() const { return algorithm_; }
  // Why it can't run on so many ranks, with rank, lane and step where the verifier objects; nullopt: it is proved. The
  // first size that is proved settles what transports must offer; others may not need more.
  std::optional<std::string> wrong_with(int size) const;

 private:
  using Objection = std::optional<std::string>;
  Objection prove(int size) const;
  Schedule make(int rank, int size, int root) const;

  std::string name_, source_, digest_;
  BySize sizes_;
  mutable Algorithm algorithm_;
  mutable std::mutex mutex_;
  mutable std::map<int, Objection> proved_;  // guarded by mutex_; entries stay
};

// The schedule with its ranks counted on by `by`: rank r does what rank r - by did.
Schedule turned(const Schedule& schedule, int by);

// Why an algorithm of the user's can't have this name: it is none, or one of ours has it; nullopt: it can.
std::optional<std::string> wrong_name(Collective collective, const std::string& name);

// What find_algorithm() finds besides ours, in place of what was set before. What was set stays valid. Any thread.
void set_user_algorithms(std::vector<std::shared_ptr<const UserAlgorithm>> algorithms);
std::vector<std::shared_ptr<const UserAlgorithm>> user_algorithms();

}  // namespace roda::schedule
