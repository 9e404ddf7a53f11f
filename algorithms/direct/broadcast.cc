#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("direct", Collective::kBroadcast, rank, size, 1);
  schedule.root = root;
  if (size == 1) return schedule;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (rank == root) {
    append_handshake(steps);
    return schedule;
  }
  steps.push_back(step::wait(root));
  steps.push_back(step::get(root, output(0), output(0)));
  steps.push_back(step::signal(root));
  return schedule;
}

}  // namespace

extern const Algorithm direct_broadcast = {
    "direct",
    "everybody reads the root's memory and tells it so; one round (MSCCL++, 2025)",
    Collective::kBroadcast,
    kNeedsSignals | kNeedsGet,
    any_size,
    make};

}  // namespace roda::schedule::registered
