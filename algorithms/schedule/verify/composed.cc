// Composed schedules: their calls, and the programs of those.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "algorithms/schedule/verify/proof.h"

namespace roda::schedule {

namespace {

using verifier::complain;
using verifier::Complaint;
using verifier::Proof;

std::string stage_text(const Call& call) { return "stage " + std::to_string(call.stage) + ": "; }

// An algorithm of messages for every size, in the place of a library's own.
const Algorithm* stand_in(Collective collective) {
  const Algorithm* found = nullptr;
  for (const char* name : {"ring", "pairwise", "binomial"}) {
    if (found == nullptr) found = find_algorithm(collective, name);
  }
  return found;
}

// The programs of calls.
class Programs {
 public:
  const std::vector<Program>& of(const Call& call) {
    std::vector<Program>& programs = made_[{call.collective, call.algorithm, call.size(), call.root}];
    if (programs.empty()) programs = make(call);
    return programs;
  }

 private:
  static std::vector<Program> make(const Call& call) {
    const Algorithm* algorithm =
        call.algorithm == kNative ? stand_in(call.collective) : find_algorithm(call.collective, call.algorithm);
    if (algorithm == nullptr) {
      complain(stage_text(call) + "there is no algorithm " + collective_name(call.collective) + "/" + call.algorithm);
    }
    if (!algorithm->accepts(call.size())) {
      complain(stage_text(call) + algorithm->name + " does not run on " + std::to_string(call.size()) + " ranks");
    }
    std::vector<Schedule> schedules;
    for (int r = 0; r < call.size(); ++r) schedules.push_back(algorithm->make(r, call.size(), call.root));
    Compiled made = compile(schedules, algorithm->needs);
    if (made.wrong) complain(stage_text(call) + *made.wrong);
    return std::move(made.ranks);
  }

  std::map<std::tuple<Collective, std::string, int, int>, std::vector<Program>> made_;
};

// Every member of a group makes the same calls in the same order.
void check_order(const std::vector<Schedule>& ranks) {
  const auto are_alike = [](const Call* a, const Call* b) {
    return a->collective == b->collective && a->algorithm == b->algorithm && a->stage == b->stage && a->root == b->root;
  };
  std::map<std::vector<std::int32_t>, std::pair<int, std::vector<const Call*>>> known;  // of the first, by group
  for (const Schedule& rank : ranks) {
    std::map<const std::vector<std::int32_t>*, std::vector<const Call*>> own;
    for (const Call& call : rank.calls) own[call.members.get()].push_back(&call);
    for (const auto& [members, calls] : own) {
      const auto [first, is_new] = known.try_emplace(*members, rank.rank, calls);
      if (is_new || std::ranges::equal(calls, first->second.second, are_alike)) continue;
      throw Violation{rank.algorithm, rank.rank, -1, -1,
                      "calls in another order than rank " + std::to_string(first->second.first) + " of the same group"};
    }
  }
}

}  // namespace

std::optional<Violation> verify_composed(const std::vector<Schedule>& ranks) {
  try {
    check_order(ranks);
    Programs programs;
    const verifier::ProgramsOf find = [&](const Call& call) -> const std::vector<Program>& {
      return programs.of(call);
    };
    Proof(ranks, find, {{false}}).run();
    if (is_cut(ranks.front().collective)) Proof(ranks, find, {{true}}).run();
  } catch (const Violation& violation) {
    return violation;
  } catch (const Complaint& complaint) {
    return Violation{ranks.front().algorithm, 0, -1, -1, complaint.text};
  }
  return std::nullopt;
}

}  // namespace roda::schedule
