// What the kernel counts of this process's TCP connections to other hosts, whichever part of the process made them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roda::observe {

// One connection; sums since it was made.
struct LinkLoad {
  std::string from, to;     // with ports
  std::int64_t bytes = 0;   // that have arrived
  std::int64_t sent = 0;    // segments
  std::int64_t resent = 0;  // of those, because they were lost
  std::int64_t busy = 0;    // ns in which something was on the way, and the receiver had room for more
};

// Takes 1 µs a descriptor of the process.
std::vector<LinkLoad> read_links();

// How the words of a fault begin.
inline constexpr std::string_view kLink = "the link from ";

inline constexpr std::int32_t kMuchLost = 10;  // per mille

// What is wrong with what this host sends, in words that follow a rank's name. Per mille of segments, and of the time.
struct LinkFault {
  std::int32_t lost = 0;
  std::int32_t busy = 0;
  std::string words;  // "": nothing is known
};

// Between two looks, `passed` ns apart: of the connection that loses most, else of the one that is busy for longest.
LinkFault worst_link(const std::vector<LinkLoad>& before, const std::vector<LinkLoad>& after, std::int64_t passed);

// Whether the links are why a rank is late for such a share (per mille) of the time: its own, or that of a rank that
// waits for it, since a rank waits for both. Links of both that are as busy are no cause. The words of the one, or "".
std::string cause_of_links(const LinkFault& own, const LinkFault& others, std::int32_t share);

}  // namespace roda::observe
