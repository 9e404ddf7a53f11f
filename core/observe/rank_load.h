// What slows this rank, as far as the kernel counts it for any process: cheap enough for a look each second.
#pragma once

#include <cstdint>
#include <string>

namespace roda::observe {

// Sums since some time before; ns but for the faults.
struct RankLoad {
  std::int64_t at = 0;         // when these were read
  std::int64_t ran = 0;        // the main thread
  std::int64_t queued = 0;     // the main thread waited for a core
  std::int64_t throttled = 0;  // the process's cgroups, at every level
  std::int64_t stalled = 0;    // something on this host waited for memory
  std::int64_t faults = 0;     // pages that the process had to wait for
};

// What can't be read stays 0. Files are those below `root`: tests replace it.
RankLoad read_load(const std::string& root = "");

// Of the time between two looks, per mille, in which the main thread waited for a core.
std::int32_t queued_share(const RankLoad& before, const RankLoad& after);

// Why a rank is late for such a share (per mille) of the time between two looks, in words that follow its name; ""
// where there is one look alone. `others_queued`: the queued_share() of a rank that waits for it.
std::string cause_of(const RankLoad& before, const RankLoad& after, std::int32_t share, std::int32_t others_queued);

}  // namespace roda::observe
