#include "core/observe/link_load.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "plugins/base/address.h"
#include "plugins/base/format.h"

namespace roda::observe {
namespace {

constexpr int kMostDescriptors = 1000;  // that are looked at
constexpr std::int64_t kSomeLost = 3;   // segments: fewer may be chance
constexpr double kMuchSent = 200e3;     // bytes a second: what carries less waits for delayed acknowledgements
constexpr auto kLeastInfo = offsetof(tcp_info, tcpi_rwnd_limited) + sizeof(tcp_info::tcpi_rwnd_limited);

// False: it is no connection of TCP's to another host.
bool read_link(int fd, LinkLoad* link) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || length < kLeastInfo) return false;
  SocketAddress from, to;
  from.length = to.length = sizeof from.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&from.storage), &from.length) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&to.storage), &to.length) != 0) return false;
  if (from.host() == to.host()) return false;
  *link = {.from = from.text(),
           .to = to.text(),
           .bytes = static_cast<std::int64_t>(info.tcpi_bytes_acked),
           .sent = info.tcpi_segs_out,
           .resent = info.tcpi_total_retrans,
           .busy = static_cast<std::int64_t>(info.tcpi_busy_time - info.tcpi_rwnd_limited) * 1000};
  return true;
}

std::string host_in(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

std::vector<LinkLoad> read_links() {
  std::vector<LinkLoad> links;
  std::error_code gone;
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    if (++count > kMostDescriptors) break;
    LinkLoad link;
    if (read_link(std::atoi(each.path().filename().c_str()), &link)) links.push_back(std::move(link));
  }
  return links;
}

LinkFault worst_link(const std::vector<LinkLoad>& before, const std::vector<LinkLoad>& after, std::int64_t passed) {
  LinkFault worst;
  for (const LinkLoad& now : after) {
    const auto then =
        std::ranges::find_if(before, [&](const LinkLoad& l) { return l.from == now.from && l.to == now.to; });
    if (then == before.end() || passed <= 0) continue;
    const std::int64_t resent = now.resent - then->resent;
    const double rate = static_cast<double>(now.bytes - then->bytes) * 1e9 / static_cast<double>(passed);
    LinkFault link;
    if (resent >= kSomeLost)
      link.lost = static_cast<std::int32_t>(resent * 1000 / std::max<std::int64_t>(now.sent - then->sent, 1));
    if (rate >= kMuchSent) link.busy = static_cast<std::int32_t>((now.busy - then->busy) * 1000 / passed);
    const auto badness = [](const LinkFault& l) { return std::pair(l.lost >= kMuchLost ? l.lost : 0, l.busy); };
    if (badness(link) <= badness(worst)) continue;
    const std::string name = roda::format("{}{} to {} ", kLink, host_in(now.from), host_in(now.to));
    link.words = name + (link.lost >= kMuchLost ? roda::format("loses {:.0f} % of what it carries", link.lost / 10.0)
                                                : roda::format("is busy {:.0f} % of the time, with {:.2g} MB a second",
                                                               link.busy / 10.0, rate / 1e6));
    worst = std::move(link);
  }
  return worst;
}

std::string cause_of_links(const LinkFault& own, const LinkFault& others, std::int32_t share) {
  if (std::max(own.lost, others.lost) >= kMuchLost) return own.lost >= others.lost ? own.words : others.words;
  if (own.busy - others.busy >= share / 2) return own.words;
  return others.busy - own.busy >= share / 2 ? others.words : "";
}

}  // namespace roda::observe
