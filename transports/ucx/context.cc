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

Context::Context(const roda_host*) {
  open_functions();
  sdk::expect_ok(events_.open(), "ucx");
}

void Context::watch(int fd) { sdk::expect_ok(events_.watch(fd, nullptr, EPOLLIN), "ucx"); }

const Library& Context::library(Reach reach, int expected_peers, const std::string& address) {
  std::unique_ptr<Library>& library = libraries_[reach == Reach::kHost ? 0 : 1];
  if (library == nullptr) library = std::make_unique<Library>(reach, expected_peers, address);
  return *library;
}

std::uint32_t Context::memory_kinds(int /*device*/) const {
  const std::uint32_t host = 1u << RODA_MEMORY_HOST;
  std::uint32_t kinds = libraries_[0] != nullptr || libraries_[1] != nullptr ? host | 1u << RODA_MEMORY_CUDA : host;
  for (const auto& library : libraries_) {
    if (library != nullptr && !library->handles(UCS_MEMORY_TYPE_CUDA)) kinds = host;
  }
  return kinds;
}

int Context::progress() {
  int handled = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
  return handled;
}

bool Context::settle() {
  bool settled = true;
  for (Group* group : groups_) settled = group->settle() && settled;
  return settled;
}

bool Context::arm() {
  events_.clear_rings();
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
