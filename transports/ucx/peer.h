// Another member of a group as this rank sees it: its endpoint, what it said, and what was said to it.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "transports/ucx/control.h"
#include "transports/ucx/lanes.h"
#include "transports/ucx/request.h"

namespace roda::ucx {

class Group;

inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;

// A window of the peer's.
struct RemoteWindow {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  ucp_rkey_h key = nullptr;
};

// Messages of one tag that did not fit on the wire: the numbers announced for them, or the receives that wait for one.
struct NumberedTag {
  std::deque<std::uint64_t> numbers;
  std::deque<Request*> parked;
};

struct Peer {
  Group* group = nullptr;
  int rank = 0;
  int world_rank = 0;
  ucp_ep_h endpoint = nullptr;

  bool said_hello = false;
  bool was_answered = false;   // our kReady is on its way
  bool is_ready = false;       // it has our hello
  bool has_left = false;       // its goodbye came
  bool is_owed = false;        // the last word of a long message from it may still wait here, in front of a direct lane
  ucs_status_t lost = UCS_OK;  // why the connection broke
  Lanes lanes;
  std::uint64_t moves = 0;  // events with this peer

  Inbox inbox;
  std::uint64_t control_sent = 0;
  int untaken = 0;  // control messages to it that UCX has not taken yet

  std::vector<std::uint64_t> signals = std::vector<std::uint64_t>(kSignals);
  std::vector<RemoteWindow> windows = std::vector<RemoteWindow>(kWindows);
  std::vector<std::uint64_t> announced = std::vector<std::uint64_t>(kWindows);  // versions of our windows
  std::uint64_t announced_version = 0;

  std::unordered_map<std::uint64_t, NumberedTag> numbered;
  std::uint64_t numbers_used = 0;
};

}  // namespace roda::ucx
