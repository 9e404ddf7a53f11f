// Which transports carry an endpoint.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace roda::ucx {

struct Lanes {
  bool some_buffer = true;   // bytes of ended operations may stay in this process (TCP, datagrams, anything unknown)
  bool some_direct = false;  // what UCX takes is in a device's hands or in the peer's memory at once
  bool meets_by_datagrams = false;  // wired up over one that carries nothing else, as RC queue pairs are
};

// Of an endpoint, connected or not.
Lanes lanes_of(ucp_ep_h endpoint);

// The same of UCX's description of an endpoint.
Lanes lanes_of(const std::string& description);

}  // namespace roda::ucx
