#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("signal", Collective::kBarrier, rank, size, 1);
  if (size > 1) append_handshake(schedule.lanes[0].steps);
  return schedule;
}

}  // namespace

extern const Algorithm direct_barrier = {
    "signal",
    "signals everybody and waits for everybody; one round (flags, not a counter: Mellor-Crummey & Scott 1991)",
    Collective::kBarrier,
    kNeedsSignals,
    any_size,
    make};

}  // namespace roda::schedule::registered
