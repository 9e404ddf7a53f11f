// The tree over the hosts along which the control plane's records travel: up to the first host, which orders them, and
// down again.
//
// Every subtree is a block of neighbouring hosts, so that what its ranks say together is named by few ranges of ranks
// where ranks are numbered host by host. Pure.
#pragma once

#include <algorithm>
#include <vector>

namespace roda::topology {

inline constexpr int kHostFanOut = 8;  // hosts that report to one

struct HostPlace {
  int parent = -1;            // -1: the root, host 0
  std::vector<int> children;  // ascending, at most `fan_out`
  int end = 0;                // the hosts from this one up to here, exclusive, are its subtree
};

// The place of `host` among `hosts`; a complete tree of that fan-out (at least 1) is log(hosts) deep.
inline HostPlace place_of(int host, int hosts, int fan_out) {
  HostPlace place;
  for (int begin = 0, end = hosts;;) {
    // The first of the block is its root; the rest is cut into blocks of nearly the same size.
    const int rest = end - begin - 1;
    const int parts = std::min(fan_out, rest);
    const auto edge = [&](int part) { return begin + 1 + static_cast<int>(static_cast<long>(rest) * part / parts); };
    if (host == begin) {
      place.end = end;
      for (int part = 0; part < parts; ++part) place.children.push_back(edge(part));
      return place;
    }
    int part = 0;
    while (host >= edge(part + 1)) ++part;
    place.parent = begin;
    const int next_begin = edge(part);
    end = edge(part + 1);
    begin = next_begin;
  }
}

}  // namespace roda::topology
