#include "transports/verbs/context.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <roda/sdk/transport.hpp>

#include <fstream>
#include <utility>

#include "plugins/base/hash.h"
#include "transports/verbs/device.h"
#include "transports/verbs/group.h"
#include "transports/verbs/verbs.h"

namespace roda::verbs {
namespace {

constexpr std::uint64_t kLingerNs = 1'000'000'000;
// Turns without anything to do between two looks at the clock.
constexpr std::uint32_t kIdleTurns = 64;

std::vector<PortFacts> choose(const Library& library, const Settings& settings) {
  const std::vector<PortFacts> ports = Device::list(library);
  if (ports.empty()) {
    throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                       "no RDMA device: libibverbs finds none in this machine, or their driver is not loaded");
  }
  std::vector<PortFacts> chosen;
  for (const std::size_t i : choose_ports(ports, settings.devices, near_numa_node(), kMaxDevices)) {
    chosen.push_back(ports[i]);
  }
  return chosen;
}

// By the running kernel's identity.
std::uint64_t identify_host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  Hash hash;
  hash.add(boot);
  return hash.value();
}

}  // namespace

void Context::probe(const roda_host* host) {
  const Settings settings = sdk::read_settings(kSettings, host);
  choose(*Library::open(settings.library), settings);
}

Context::Context(const roda_host* host)
    : host_(host),
      settings_(sdk::read_settings(kSettings, host)),
      library_(Library::open(settings_.library)),
      host_id_(identify_host()) {
  // Only matters to kernels that do not copy registered pages at a fork.
  if (library_->fork_init() != 0) log(RODA_LOG_DEBUG, "ibv_fork_init came too late: others have registered memory");
  for (const PortFacts& port : choose(*library_, settings_)) {
    devices_.push_back(std::make_unique<Device>(library_, port, settings_));
    log(RODA_LOG_DEBUG, "uses " + devices_.back()->name() + " at " + gid_text(devices_.back()->address().gid));
  }
  known_ = std::make_unique<KnownMemory>(devices_);
  sdk::expect_ok(open(), "verbs");
  timer_.reset(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "verbs: timerfd"));
  timer_guard_ = ForkGuard(timer_.get());
  watch(timer_.get());
  for (const auto& device : devices_) {
    watch(device->channel()->fd);
    watch(device->context()->async_fd);
  }
}

Context::~Context() {
  if (!in_owner()) {  // the devices are the parent's: nothing of them may be touched
    for (Lingering& left : lingering_) static_cast<void>(left.wires.release());
    static_cast<void>(known_.release());
    for (auto& device : devices_) static_cast<void>(device.release());
    return;
  }
  while (!lingering_.empty()) {
    if (progress() > 0 || !arm()) continue;
    pollfd waiting{event_fd(), POLLIN, 0};
    (void)::poll(&waiting, 1, 20);
  }
}

int Context::progress() {
  int handled = GroupList::progress();
  if (!lingering_.empty()) handled += progress_lingering();
  if (handled == 0 && ++idle_turns_ % kIdleTurns == 0 && now_ns() - looked_ns_ >= probe_ns() / 2) look_around();
  return handled;
}

void Context::linger(std::unique_ptr<Wires> wires) {
  lingering_.push_back({std::move(wires), now_ns() + kLingerNs});
  progress_lingering();
}

int Context::progress_lingering() {
  int handled = 0;
  std::erase_if(lingering_, [&](const Lingering& left) {
    try {
      handled += left.wires->progress();
      return left.wires->is_drained() || now_ns() > left.until_ns;
    } catch (const std::exception& failure) {
      log(RODA_LOG_DEBUG, std::string("gave up what was left to send: ") + failure.what());
      return true;
    }
  });
  return handled;
}

bool Context::arm() {
  if (!in_owner()) return true;
  clear_rings();
  if (timer_rang()) look_around();
  read_device_events();
  drain_channels();
  for (Group* group : groups_) group->arm();
  for (const Lingering& left : lingering_) left.wires->arm();
  if (progress() > 0) return false;
  set_timer(!lingering_.empty() ||
            std::any_of(groups_.begin(), groups_.end(), [](const Group* group) { return group->is_watching(); }));
  return true;
}

void Context::look_around() {
  looked_ns_ = now_ns();
  if (!in_owner()) return;
  read_device_events();
  for (Group* group : groups_) group->ask_silent_peers();
}

bool Context::timer_rang() {
  std::uint64_t count = 0;
  return ::read(timer_.get(), &count, sizeof count) == sizeof count;
}

void Context::set_timer(bool is_on) {
  if (is_on == timer_is_on_) return;
  timer_is_on_ = is_on;
  itimerspec period{};
  if (is_on) {
    const std::uint64_t ns = probe_ns() / 2;
    period.it_interval = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    period.it_value = period.it_interval;
  }
  (void)::timerfd_settime(timer_.get(), 0, &period, nullptr);
}

void Context::on_device_event(const Device& device, const ibv_async_event& event) {
  std::string what = library_->event_type_str(event.event_type);
  const ibv_qp* pair = nullptr;
  std::string state;
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
      // A link that is back already has lost nothing that is not sent again.
      if (event.element.port_num != device.address().port || device.is_active(&state)) return;
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      pair = event.element.qp;
      break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
      break;
    default:
      return log(RODA_LOG_DEBUG, device.name() + ": " + what);
  }
  if (!state.empty()) what += " (the port is " + state + ")";
  log(RODA_LOG_WARNING, device.name() + ": " + what);
  for (Group* group : groups_) group->on_device_event(device, pair, what);
}

}  // namespace roda::verbs

const roda_transport* roda_verbs_transport() {
  static constexpr roda_transport table =
      roda::sdk::transport<roda::verbs::Context, roda::verbs::Group, roda::verbs::kCapabilities>(
          "verbs", "RDMA over libibverbs: reliable connections of InfiniBand and RoCE devices", RODA_PROGRESS_FD);
  return &table;
}
