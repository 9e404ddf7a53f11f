// One use of the transport by this process: the opened devices, the memory they know, the descriptor to sleep on, and
// the groups.
#pragma once

#include <roda/sdk/group_state.hpp>

#include "plugins/base/event_set.h"
#include "plugins/base/unique_fd.h"
#include "transports/verbs/device.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/verbs.h"
#include "transports/verbs/wires.h"

namespace roda::verbs {

class Group;

inline constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT |
                                               RODA_CAP_ALLOCATE | RODA_CAP_REGISTER | RODA_CAP_FAULT_TOLERANT;

// Threads: as the ABI says, one at a time; ring() any. In a forked child the devices aren't there
// and everything is refused. Throws sdk::Failure.
class Context : public sdk::GroupList<Group>, public EventSet {
 public:
  static void probe(const roda_host* host);
  explicit Context(const roda_host* host);
  // Waits, for a second at most, until what was sent has arrived.
  ~Context();

  // Whether messages take a GPU's memory is found once for each: by registering some of it.
  std::uint32_t memory_kinds(int device) {
    const std::uint32_t host = 1u << RODA_MEMORY_HOST;
    if (!in_owner()) return host;
    const auto [known, is_new] = reached_gpus_.try_emplace(device, false);
    if (is_new) known->second = reaches_gpu(host_, devices_, device);
    return known->second ? host | 1u << RODA_MEMORY_CUDA : host;
  }
  int progress();
  // What devices tell beside completions: ports that went down, broken queue pairs. Ends the groups that use them.
  void read_device_events() {
    for (const auto& device : devices_) {
      ibv_async_event event{};
      while (library_->get_async_event(device->context(), &event) == 0) {
        on_device_event(*device, event);
        library_->ack_async_event(&event);
      }
    }
  }
  // True: sleep; false: there is something to do.
  bool arm();

  // Keeps the links of a group that is gone until what was sent over them has arrived.
  void linger(std::unique_ptr<Wires> wires);

  const Settings& settings() const { return settings_; }
  const Devices& devices() const { return devices_; }
  KnownMemory& known() { return *known_; }
  std::uint64_t host_id() const { return host_id_; }
  std::uint64_t probe_ns() const { return std::uint64_t{settings_.probe_ms} * 1'000'000; }

 private:
  struct Lingering {
    std::unique_ptr<Wires> wires;
    std::uint64_t until_ns;
  };

  void watch(int fd) { sdk::expect_ok(EventSet::watch(fd, nullptr, EPOLLIN), "verbs"); }
  int progress_lingering();
  void on_device_event(const Device& device, const ibv_async_event& event);
  void drain_channels() {
    for (const auto& device : devices_) {
      ibv_cq* cq = nullptr;
      void* queue = nullptr;
      while (library_->get_cq_event(device->channel(), &cq, &queue) == 0) {
        static_cast<Wires::Queue*>(queue)->is_armed = false;
        library_->ack_cq_events(cq, 1);
      }
    }
  }
  bool timer_rang();
  // What no completion tells: events of devices, and peers that say nothing.
  void look_around();
  void set_timer(bool is_on);
  void log(int level, const std::string& text) const { sdk::log(host_, level, "verbs", text); }

  const roda_host* host_;
  Settings settings_;
  std::shared_ptr<const Library> library_;
  std::uint64_t host_id_;
  Devices devices_;
  std::unique_ptr<KnownMemory> known_;
  std::map<int, bool> reached_gpus_;
  UniqueFd timer_;
  ForkGuard timer_guard_;
  std::vector<Lingering> lingering_;
  bool timer_is_on_ = false;
  std::uint32_t idle_turns_ = 0;
  std::uint64_t looked_ns_ = 0;
};

}  // namespace roda::verbs
