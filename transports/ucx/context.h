// One use of UCX by this process: the descriptor to sleep on, UCX's contexts, and the groups.
#pragma once

#include <roda/sdk/group_state.hpp>

#include <array>
#include <memory>

#include "plugins/base/event_set.h"
#include "transports/ucx/library.h"

namespace roda::ucx {

class Group;

inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_ALLOCATE | RODA_CAP_REGISTER | RODA_CAP_FAULT_TOLERANT |
                                               RODA_CAP_WINDOW_ANY | RODA_CAP_ACTIVE_WINDOWS;

// Threads: as the ABI says, one at a time; ring() any. In a forked child UCX must not be called. Throws sdk::Failure.
class Context : public sdk::GroupList<Group>, public EventSet {
 public:
  explicit Context(const roda_host*) {
    open_functions();
    sdk::expect_ok(open(), "ucx");
  }

  static void probe(const roda_host*);
  // Describes the library that the probe found.
  static const char* description();

  // UCX's context for groups of that reach, made when first asked for.
  // `address`: GroupState::address().
  const Library& library(Reach reach, int expected_peers, const std::string& address) {
    std::unique_ptr<Library>& library = libraries_[reach == Reach::kHost ? 0 : 1];
    if (library == nullptr) library = std::make_unique<Library>(reach, expected_peers, address);
    return *library;
  }

  // As UCX says of its contexts here; host memory alone before there is one.
  std::uint32_t memory_kinds(int /*device*/) const {
    const std::uint32_t host = 1u << RODA_MEMORY_HOST;
    std::uint32_t kinds = libraries_[0] != nullptr || libraries_[1] != nullptr ? host | 1u << RODA_MEMORY_CUDA : host;
    for (const auto& library : libraries_) {
      if (library != nullptr && !library->handles(UCS_MEMORY_TYPE_CUDA)) kinds = host;
    }
    return kinds;
  }
  // True: sleep; false: there is something to do.
  bool arm();
  void disarm() { armed_ = false; }
  bool settle();
  // Something was handed to UCX whose end may come without an event: a caller who was about to sleep must not.
  void stay_awake() {
    if (armed_) ring();
  }

  // Makes event_fd() readable when `fd` is.
  void watch(int fd) { sdk::expect_ok(EventSet::watch(fd, nullptr, EPOLLIN), "ucx"); }

 private:
  std::array<std::unique_ptr<Library>, 2> libraries_;
  bool armed_ = false;
};

}  // namespace roda::ucx
