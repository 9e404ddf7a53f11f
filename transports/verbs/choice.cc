#include "transports/verbs/choice.h"

#include <arpa/inet.h>
#include <sched.h>
#include <unistd.h>

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstdlib>

namespace roda::verbs {

namespace {

std::string listed(const std::vector<PortFacts>& ports) {
  std::string text;
  for (const PortFacts& port : ports) {
    text += (text.empty() ? "" : ", ") + port.device + ":" + std::to_string(port.port) + " (" + port.state + ")";
  }
  return text.empty() ? "there is no RDMA device" : "there are " + text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::size_t find_wanted(const std::vector<PortFacts>& ports, const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string device = word.substr(0, colon);
  const int port = colon == std::string::npos ? 1 : std::atoi(word.c_str() + colon + 1);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].device != device || ports[i].port != port) continue;
    if (ports[i].is_active) return i;
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, "RODA_VERBS_DEVICES names " + word + ", whose port is " + ports[i].state);
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "RODA_VERBS_DEVICES names " + word + "; " + listed(ports));
}

bool is_link_local(const std::array<std::uint8_t, 16>& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

// Higher is better, 0 is of no use.
int worth(const GidFacts& gid) {
  if (std::all_of(gid.raw.begin(), gid.raw.end(), [](std::uint8_t byte) { return byte == 0; })) return 0;
  const int address = is_ipv4(gid.raw) ? 3 : is_link_local(gid.raw) ? 1 : 2;
  if (gid.type == GidType::kRoceV2) return 3 + address;
  return gid.type == GidType::kRoceV1 ? address : 0;
}

int node_of_cpu(int cpu) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/node";
  for (int node = 0; node < 1024; ++node) {
    if (::access((folder + std::to_string(node)).c_str(), F_OK) == 0) return node;
  }
  return -1;
}

}  // namespace

std::vector<std::size_t> choose_ports(const std::vector<PortFacts>& ports, const std::string& wanted, int near_node,
                                      std::size_t most) {
  std::vector<std::size_t> chosen;
  for (const std::string& word : split(wanted)) chosen.push_back(find_wanted(ports, word));
  if (chosen.empty()) {
    bool some_near = false;
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (!ports[i].is_active) continue;
      const bool near = near_node >= 0 && ports[i].numa_node == near_node;
      if (near && !some_near) chosen.clear();
      some_near = some_near || near;
      if (near || !some_near) chosen.push_back(i);
    }
  }
  if (chosen.empty()) throw sdk::Failure(RODA_ERR_UNAVAILABLE, "no RDMA port is active: " + listed(ports));
  if (chosen.size() > most) chosen.resize(most);
  return chosen;
}

bool is_ipv4(const std::array<std::uint8_t, 16>& gid) {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(std::begin(kPrefix), std::end(kPrefix), gid.begin());
}

std::string gid_text(const std::array<std::uint8_t, 16>& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(gid)) {
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

int choose_gid(const std::vector<GidFacts>& gids) {
  const GidFacts* best = nullptr;
  for (const GidFacts& gid : gids) {
    if (worth(gid) > (best != nullptr ? worth(*best) : 0)) best = &gid;
  }
  return best != nullptr ? best->index : -1;
}

int near_numa_node() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  int common = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const int node = node_of_cpu(cpu);
    if (node < 0 || (common >= 0 && node != common)) return -1;
    common = node;
  }
  return common;
}

}  // namespace roda::verbs
