// Which devices and which address: plain functions over facts, so that tests need no device.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace roda::verbs {

struct PortFacts {
  std::string device;
  int port = 1;
  bool is_active = false;
  std::string state;  // in words, for errors
  int numa_node = -1;
};

// Indices into `ports`, in the order of use, at most `most`.
//
// With `wanted` ("mlx5_0,mlx5_1:2": device, port 1 unless given) exactly those, each of which must be there and active.
// Without it the active ones; where some are on `near_node` (-1: unknown), only these. Throws sdk::Failure
// (RODA_ERR_UNAVAILABLE) that says what there is.
std::vector<std::size_t> choose_ports(const std::vector<PortFacts>& ports, const std::string& wanted, int near_node,
                                      std::size_t most);

enum class GidType : std::uint8_t { kInfiniband, kRoceV1, kRoceV2 };

struct GidFacts {
  int index = 0;
  GidType type = GidType::kInfiniband;
  std::array<std::uint8_t, 16> raw{};
};

bool is_ipv4(const std::array<std::uint8_t, 16>& gid);  // mapped: ::ffff:a.b.c.d
// As an address is written.
std::string gid_text(const std::array<std::uint8_t, 16>& gid);

// The entry to use on an Ethernet port: RoCE v2 before v1, then IPv4, then global IPv6, then link-local; the lowest
// index among equals. -1: none is usable.
int choose_gid(const std::vector<GidFacts>& gids);

// The NUMA node that all processors this process may run on belong to, or -1.
int near_numa_node();

}  // namespace roda::verbs
