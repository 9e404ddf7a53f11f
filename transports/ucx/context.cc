#include "transports/ucx/context.h"

#include <sys/epoll.h>
#include <roda/sdk/transport.hpp>

#include <algorithm>
#include <cstdio>

#include "plugins/base/symbols.h"
#include "transports/ucx/group.h"
#include "transports/ucx/ucx.h"

namespace roda::ucx {
namespace {

// What is known of UCX after a probe.
char described[300] = "UCX: tagged messages and one-sided access";

}  // namespace

void Context::probe(const roda_host*) {
  probe_library();
  std::snprintf(described, sizeof described, "UCX %s (%s): tagged messages and one-sided access",
                library_version().c_str(), file_of(ucp.get_version, "libucp").c_str());
}

const char* Context::description() { return described; }

bool Context::settle() {
  bool settled = true;
  for (Group* group : groups_) settled = group->settle() && settled;
  return settled;
}

bool Context::arm() {
  clear_rings();
  armed_ = std::all_of(groups_.begin(), groups_.end(), [](Group* group) { return group->arm(); });
  return armed_;
}

}  // namespace roda::ucx

const roda_transport* roda_ucx_transport() {
  static const roda_transport table =
      roda::sdk::transport<roda::ucx::Context, roda::ucx::Group, roda::ucx::kCapabilities>(
          "ucx", roda::ucx::Context::description(), RODA_PROGRESS_FD);
  return &table;
}
