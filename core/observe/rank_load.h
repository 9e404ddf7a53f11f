// What slows this rank, as far as the kernel counts it for any process: cheap enough for a look each second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/link_load.h"

namespace roda::observe {

// Sums since some time before; ns but for the counts.
struct RankLoad {
  std::int64_t at = 0;         // when these were read
  std::int64_t ran = 0;        // the main thread
  std::int64_t kernel = 0;     // of that, in the kernel
  std::int64_t queued = 0;     // the main thread waited for a core
  std::int64_t throttled = 0;  // the process's cgroups, at every level
  std::int64_t stalled = 0;    // something on this host waited for memory
  std::int64_t collected = 0;  // Python's garbage collector, which its binding counts
  std::int64_t faults = 0;     // pages that the process had to wait for
  std::int64_t new_pages = 0;  // that it got without a wait
  std::int64_t read = 0;       // bytes that it read from files
  std::int64_t fetched = 0;    // of those, from a disk
  std::vector<LinkLoad> links;
};

// What can't be read stays 0. Files are those below `root`: tests replace it.
RankLoad read_load(const std::string& root = "");

// Of the time between two looks, per mille; 0 where there is one look alone.
std::int32_t share_of(std::int64_t RankLoad::*time, const RankLoad& before, const RankLoad& after);

// How the words of a cause begin where cores are short.
inline constexpr std::string_view kShortOfCores = "its main thread waits for a core";

// Of a rank that waits for the late one, per mille: what both have alike makes neither late.
struct OthersLoad {
  std::int32_t ran = 0;
  std::int32_t queued = 0;
  std::int32_t kernel = 0;
  std::int32_t collected = 0;
  LinkFault link;
};

// Why a rank is late for such a share (per mille) of the time between two looks, in words that follow its name.
std::string cause_of(const RankLoad& before, const RankLoad& after, std::int32_t share, const OthersLoad& others);

}  // namespace roda::observe
