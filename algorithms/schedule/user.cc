#include "algorithms/schedule/user.h"

#include <algorithm>
#include <utility>

#include "algorithms/schedule/verifier.h"

namespace roda::schedule {
namespace {

// All that were ever set: whoever found one may keep it.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<const UserAlgorithm>> current;
  std::vector<std::shared_ptr<const UserAlgorithm>> all;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

UserAlgorithm::UserAlgorithm(Collective collective, std::string name, std::string source, std::string digest,
                             BySize sizes)
    : name_(std::move(name)), source_(std::move(source)), digest_(std::move(digest)), sizes_(std::move(sizes)) {
  algorithm_.name = name_.c_str();
  algorithm_.summary = "a schedule file";
  algorithm_.collective = collective;
  algorithm_.needs = 0;
  algorithm_.accepts = [this](int size) { return !wrong_with(size); };
  algorithm_.make = [this](int rank, int size, int root) { return make(rank, size, root); };
}

UserAlgorithm::Objection UserAlgorithm::prove(int size) const {
  const std::string of_size = " on " + std::to_string(size) + " ranks";
  const auto found = sizes_.find(size);
  if (found == sizes_.end()) return name_ + " does not run" + of_size;
  if (const auto violation = verify(found->second)) return violation->to_text() + of_size;
  const std::uint32_t needs = needs_of(found->second);
  if (algorithm_.needs == 0) algorithm_.needs = needs;
  if ((needs & ~algorithm_.needs) == 0) return std::nullopt;
  return name_ + of_size + " needs more of a transport than on the size that was proved first";
}

std::optional<std::string> UserAlgorithm::wrong_with(int size) const {
  const std::scoped_lock lock(mutex_);
  const auto known = proved_.find(size);
  return known != proved_.end() ? known->second : proved_.emplace(size, prove(size)).first->second;
}

Schedule UserAlgorithm::make(int rank, int size, int root) const {
  if (wrong_with(size)) return Schedule();
  const std::vector<Schedule>& ranks = sizes_.at(size);
  if (!is(collective(), RODA_ROOTED)) return ranks[static_cast<std::size_t>(rank)];
  return turned(ranks[static_cast<std::size_t>((rank - root + size) % size)], root);
}

Schedule turned(const Schedule& schedule, int by) {
  Schedule other = schedule;
  const int size = schedule.size;
  const auto turn = [&](int rank) { return ((rank + by) % size + size) % size; };
  other.rank = turn(schedule.rank);
  other.root = turn(schedule.root);
  for (Lane& lane : other.lanes) {
    for (Step& step : lane.steps) {
      if (!is_local(step.kind) && step.peer != kAllPeers) step.peer = turn(step.peer);
    }
  }
  return other;
}

std::optional<std::string> wrong_name(Collective collective, const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, is_letter)) {
    return "\"" + name + "\" is no name: give lower case letters, digits and '_'";
  }
  const bool is_ours = name == "native" ||
                       std::any_of(algorithms().begin(), algorithms().end(),
                                   [&](const Algorithm* a) { return a->collective == collective && name == a->name; });
  if (is_ours) return std::string("there is an algorithm ") + collective_name(collective) + "/" + name + " already";
  return std::nullopt;
}

void set_user_algorithms(std::vector<std::shared_ptr<const UserAlgorithm>> algorithms) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  all.all.insert(all.all.end(), algorithms.begin(), algorithms.end());
  all.current = std::move(algorithms);
}

std::vector<std::shared_ptr<const UserAlgorithm>> user_algorithms() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  return all.current;
}

}  // namespace roda::schedule
