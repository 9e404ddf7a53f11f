// What a job would like to know of its links: between which ranks, over which transport, kept under which key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bootstrap/topology.h"
#include "core/engine/link_cache.h"
#include "core/engine/link_trial.h"
#include "core/engine/links.h"
#include "core/engine/planner.h"

namespace roda::engine {

// One thing to be known. `key`: what it holds for, and so what makes a kept figure worthless: other hosts (a reboot
// makes a host another), another transport, another version.
struct LinkWish {
  std::string name;
  std::string key;
  Link Links::*link = nullptr;  // null: the processor
  LinkTrial trial;              // without a transport: there is none that can be tried, and the wish stays one
};

// The same list on every rank. As far as the job has them: the memory and the loopback of the first host with two
// ranks, between its first two; the network, between the first ranks of the first two hosts; rank 0's processor.
std::vector<LinkWish> link_wishes(const Topology& topology, const Planner& planner);
// Of a job of two ranks on this host.
std::vector<LinkWish> link_wishes(const HostIdentity& host, const Planner& planner);

Figures figures_of(const LinkWish& wish, const Links& links);
// False, and *links as it was: figures are missing.
bool apply(const LinkWish& wish, const Figures& figures, Links* links);

}  // namespace roda::engine
