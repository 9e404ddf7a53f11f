// Ranks as threads of one process, each with its part of one control plane.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/control/control_plane.h"

namespace roda::control {

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

inline std::vector<Status> on_ranks(int size, const std::function<Status(int rank)>& function) {
  std::vector<Status> statuses(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { statuses[static_cast<std::size_t>(rank)] = function(rank); });
  }
  for (auto& thread : threads) thread.join();
  return statuses;
}

// `per_host` ranks on each of `hosts` pretended hosts.
inline Topology topology_of(int hosts, int per_host) {
  Topology topology;
  for (int rank = 0; rank < hosts * per_host; ++rank) {
    if (rank % per_host == 0) topology.hosts.push_back({"host" + std::to_string(rank / per_host), "", 0, {}});
    topology.hosts.back().ranks.push_back(rank);
  }
  place_ranks(&topology);
  return topology;
}

inline ControlPlane::Membership membership_for_test() {
  const std::array<std::uint8_t, 16> secret{1, 2, 3};
  return {"test", "127.0.0.1", "here", Secret(secret), soon()};
}

}  // namespace roda::control
