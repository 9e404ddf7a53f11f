// The links that predictions go by: what a message and a byte cost inside a host and between hosts.
#pragma once

#include <string>

#include "core/topology/cluster.h"
#include "plugins/base/status.h"

namespace roda::engine {

// One kind of link, as in sim::Level.
struct Link {
  double latency_us = 0;
  double overhead_us = 0;
  double GBps = 1;

  friend bool operator==(const Link&, const Link&) = default;
};

// A value. Threads: pure functions, any.
struct Links {
  Link memory{0.3, 0.2, 8};   // ranks of one host, by a transport that reaches only their host
  Link loopback{12, 6, 3};    // ranks of one host, by one that reaches all
  Link network{30, 8, 1.25};  // of one host's interface: 10 Gbit/s Ethernet
  double reduce_GBps = 6;     // of one rank
  double copy_GBps = 10;
  std::string source = "assumed";  // where the figures are from, in words
  bool are_measured = false;       // or given by the user: all that this job's plans go by

  friend bool operator==(const Links&, const Links&) = default;
};

// The network's bandwidth from the fastest interface that is up on every host of several, and InfiniBand's latency
// where that is it; the rest as assumed.
Links links_of(const topology::Cluster& cluster);

// RODA_LINKS: a JSON object with "memory", "loopback", "network" (each with latency_us, overhead_us, GBps), reduce_GBps
// and copy_GBps, each of which may be missing. The error names the file and the field.
Status read_links(const std::string& path, Links* links);
// The same object as a text; `from` is what errors begin with.
Status parse_links(const std::string& text, const std::string& from, Links* links);
// In the file's form, in one line: compared between ranks.
std::string one_line(const Links& links);

}  // namespace roda::engine
