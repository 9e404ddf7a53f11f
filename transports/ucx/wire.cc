#include "transports/ucx/wire.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "transports/ucx/library.h"

namespace roda::ucx {
namespace {

constexpr std::string_view kDirect[] = {"self",     "posix",   "sysv",    "xpmem",    "cma",       "knem",
                                        "rc_verbs", "rc_mlx5", "dc_mlx5", "cuda_ipc", "cuda_copy", "gdr_copy"};
constexpr std::string_view kLane = "lane[";

// "#  lane[0]:  1:tcp/lo.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am": tcp.
std::string_view transport_of(std::string_view line) {
  const std::size_t number = line.find("]:", line.find(kLane));
  const std::size_t colon = number == line.npos ? line.npos : line.find(':', number + 2);
  if (colon == line.npos) return {};
  return line.substr(colon + 1, line.find('/', colon) - colon - 1);
}

// "… md[1]/ib/sysdev[255] keepalive wireup": no data go there, and UCX's own thread sends again what is lost, for 30 s
// if the peer took it and left.
bool is_for_control(std::string_view line) {
  const std::size_t device = line.find("sysdev[");
  const std::size_t end = device == line.npos ? line.npos : line.find(']', device);
  if (end == line.npos) return false;
  std::istringstream uses{std::string(line.substr(end + 1))};
  bool some = false;
  for (std::string use; uses >> use;) {
    if (use != "keepalive" && use != "wireup") return false;
    some = some || use == "wireup";
  }
  return some;
}

}  // namespace

Lanes lanes_of(const std::string& description) {
  Lanes lanes{false, false, false};
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(kLane) == line.npos) continue;
    if (is_for_control(line)) {
      lanes.meets_by_datagrams = true;
      continue;
    }
    const bool is_direct = std::ranges::find(kDirect, transport_of(line)) != std::end(kDirect);
    (is_direct ? lanes.some_direct : lanes.some_buffer) = true;
  }
  return lanes.some_direct ? lanes : Lanes{};
}

Lanes lanes_of(ucp_ep_h endpoint) {
  char* text = nullptr;
  std::size_t bytes = 0;
  FILE* stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp.ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string description(text, bytes);
  std::free(text);
  return lanes_of(description);
}

}  // namespace roda::ucx
