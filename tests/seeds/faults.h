// What goes wrong in a job, beside its calls: follows from the seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/seeds/draw.h"

namespace roda::seeds {

struct Fault {
  enum class Kind : std::uint8_t { kDeath, kHostLost, kStoreLost, kPause, kStop, kBreak, kRaise };
  Kind kind = Kind::kDeath;
  int which = 0;                     // rank, or host
  bool is_early = false;             // while the ranks come together
  std::uint64_t at = 0;              // steps after all have started, or, early, of all
  std::chrono::milliseconds time{};  // of a pause, which the job survives, or a stop
};

// A rank that stops for so long may be given up, and is within kGivenUp where others wait for it: a rank that is heard
// through seven hosts gives those two seconds each to say what they know.
inline constexpr std::chrono::seconds kStallLimit{40}, kGivenUp{60}, kStopped{70};

inline std::vector<Fault> draw_faults(Draw& draw, int ranks, int hosts) {
  using Kind = Fault::Kind;
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<Fault> faults;
  const auto add = [&](Kind kind, std::size_t of, std::chrono::milliseconds time = {}) {
    faults.push_back({kind, static_cast<int>(draw_below(draw, of)), false, draw_below(draw, 400 * size), time});
  };
  const auto add_early = [&](Kind kind, std::size_t of) {
    add(kind, of);
    faults.back().is_early = true;
    faults.back().at = draw_below(draw, 200 * size);
  };
  switch (draw_below(draw, 11)) {
    case 0:
    case 1:
    case 2:
      add(Kind::kDeath, size);
      break;
    case 3:
      add(Kind::kDeath, size);
      add(Kind::kDeath, size);
      break;
    case 4:
      add(hosts > 1 ? Kind::kHostLost : Kind::kDeath, static_cast<std::size_t>(hosts > 1 ? hosts : ranks));
      break;
    case 5:
      if (draw_one_in(draw, 6)) {  // long to play
        add(Kind::kStop, size, kStopped);
      } else if (hosts > 1) {
        add(Kind::kBreak, 1);
      }
      break;
    case 6:
      add(Kind::kRaise, size);
      break;
    case 7:
      if (draw_one_in(draw, 3)) {
        draw_one_in(draw, 2) ? add(Kind::kStoreLost, 1) : add_early(Kind::kStoreLost, 1);
      } else {
        add_early(Kind::kDeath, size);
      }
      break;
    default:
      break;
  }
  // Where something else is wrong, who pauses for seconds may be given up for it.
  const bool is_whole = faults.empty();
  for (std::size_t pauses = draw_below(draw, 3); pauses > 0; --pauses) {
    const std::size_t limit = is_whole && draw_one_in(draw, 8) ? 5'000 : 30;
    add(Kind::kPause, size, std::chrono::milliseconds(1 + draw_below(draw, limit)));
  }
  return faults;
}

}  // namespace roda::seeds
