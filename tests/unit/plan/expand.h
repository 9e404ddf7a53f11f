// Composed schedules as schedules of messages and signals, which the verifier executes.
//
// In the place of each call stand the steps of its algorithm, over the call's ranges. What executors do around a
// schedule is written out: a contribution that lies elsewhere is copied to where the algorithm wants it; an algorithm
// that reads or writes its peers' memory works in staging memory of its own, copied in and out. A library's own
// collective, whose insides nobody sees, stands there as an algorithm of messages.
//
// Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"

namespace roda::plan {

// `ranks[r]` is rank r's composed schedule. On failure the reason, with the stage: an algorithm that there isn't, or
// members that call differently.
std::optional<std::string> expand(const std::vector<schedule::Schedule>& ranks, std::vector<schedule::Schedule>* out);

// Whether composed schedules are right. Beside what the verifier finds in what they expand to:
//   - the members of a group make the same calls in the same order, which is all that tells native ones apart;
//   - no region is read after another of its buffer was written;
//   - an allreduce or broadcast does not read Input once it has written Output: they may be one memory.
std::optional<schedule::Violation> verify_composed(const std::vector<schedule::Schedule>& ranks);

// "hierarchical: reducescatter(host, ring); ..."
std::string to_text(const Plan& plan, const Grid& grid);

// Of a plan: of all its schedules, for a broadcast with every root.
std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid);

}  // namespace roda::plan
