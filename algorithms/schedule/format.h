// Algorithms whose messages travel in a wire format (roda_wire_formats): fewer bytes, and sums that are still float32.
//
// An algorithm of messages in a format is one like any other, named "ring/int8". Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// Blocks of a message, and the tensors of a bucket, begin at multiples of this many elements of the data, however that
// is cut.
inline constexpr std::size_t kFormatGrain = 256;

// Groups that are larger run unformatted: proofs take time.
inline constexpr int kMostFormatted = 64;

// Whether algorithms of the collective can: what they end with is a sum, or goes to all ranks alike.
constexpr bool can_have_format(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduceScatter ||
         collective == Collective::kAllgather;
}

// All messages of the schedule in the format, of blocks of the ranks one chunk each. Whoever sends what it goes on with
// rounds that first: every rank has it as the message says. `rounds_own`: so does who goes on with a contribution of
// its own that it sends to nobody, so that each contribution is rounded as often, whoever sums it up.
Schedule with_format(Schedule schedule, std::int32_t format, bool rounds_own);

// nullopt: no format of that name.
std::optional<std::int32_t> find_format(std::string_view name);

// Why an algorithm can't have a format, whatever the number of ranks; empty: it can.
std::string unformattable(const Algorithm& algorithm);

// "ring/int8"; nullptr: there is no such algorithm or format, or the algorithm can't have one.
const Algorithm* find_formatted(Collective collective, std::string_view name);

// The proof of a formatted algorithm on so many ranks, 1 to kMostFormatted.
struct Rounding {
  std::string wrong;  // empty: all ranks end with the same bits
  int most = 0;       // roundings that some contribution goes through, at most
};
const Rounding& rounding_of(const Algorithm& formatted, int size);

// Whether all ranks end with the same bits although each rounds in its own way: no two round the same sum.
bool rounds_apart(const Algorithm& formatted, int size);

// How often any algorithm rounds a contribution at least: as a message, and of an allreduce as a part of the sum.
constexpr int fewest_roundings(Collective collective) { return collective == Collective::kAllreduce ? 2 : 1; }

// The most that a sum is off by when each contribution is rounded so many times: as a share of the sum, over the ranks,
// of the largest magnitudes of their blocks.
double error_bound(std::int32_t format, int roundings);

// Why a user who bears so much can't have so many roundings, as the end of a sentence that names the plan, with what to
// do; empty: they can.
std::string beyond_bound(double bound, std::int32_t format, int roundings);

}  // namespace roda::schedule
