#include "algorithms/schedule/verifier.h"

#include "algorithms/schedule/verify/check.h"
#include "algorithms/schedule/verify/run.h"

namespace roda::schedule {

std::string Violation::to_text() const {
  std::string text = algorithm + ": rank " + std::to_string(rank);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  if (step >= 0) text += ", step " + std::to_string(step);
  return text + ": " + message;
}

std::optional<Violation> verify(const std::vector<Schedule>& ranks) {
  if (std::optional<Violation> violation = verifier::check(ranks)) return violation;
  return verifier::Run(ranks).run();
}

std::optional<Violation> verify(const Algorithm& algorithm, int size, int root) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(algorithm.make(rank, size, root));
  if (std::optional<Violation> violation = verifier::check_description(algorithm, ranks)) return violation;
  return verify(ranks);
}

}  // namespace roda::schedule
