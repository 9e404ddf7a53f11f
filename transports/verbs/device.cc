#include "transports/verbs/device.h"

#include <fcntl.h>

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace roda::verbs {

namespace {

// The functions take the part of the attributes that has been there from the beginning; the rest stays zero.
int query_port(const Library& library, ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  *attributes = ibv_port_attr{};
  return library.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

const char* state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising";
    case IBV_PORT_ARMED:
      return "armed, without a subnet manager";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "in an unknown state";
  }
}

int numa_node_of(const std::string& device) {
  std::ifstream file("/sys/class/infiniband/" + device + "/device/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

void list_ports(const Library& library, ibv_device* device, std::vector<PortFacts>* ports) {
  PortFacts facts;
  facts.device = library.get_device_name(device);
  facts.numa_node = numa_node_of(facts.device);
  ibv_context* context = library.open_device(device);
  if (context == nullptr) {
    facts.state = std::string("can't be opened: ") + std::strerror(errno);
    ports->push_back(facts);
    return;
  }
  ibv_device_attr attributes{};
  if (library.query_device(context, &attributes) != 0) attributes.phys_port_cnt = 1;
  for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    facts.port = port;
    facts.is_active = query_port(library, context, port, &state) == 0 && state.state == IBV_PORT_ACTIVE;
    facts.state = state_text(state.state);
    ports->push_back(facts);
  }
  library.close_device(context);
}

sdk::Failure failure(const std::string& what) {
  return {RODA_ERR_SYSTEM, "verbs: " + what + ": " + std::strerror(errno)};
}

}  // namespace

std::vector<PortFacts> Device::list(const Library& library) {
  std::vector<PortFacts> ports;
  int count = 0;
  ibv_device** devices = library.get_device_list(&count);
  if (devices == nullptr) return ports;
  for (int i = 0; i < count; ++i) list_ports(library, devices[i], &ports);
  library.free_device_list(devices);
  return ports;
}

Device::Device(std::shared_ptr<const Library> library, const PortFacts& facts, const Settings& settings)
    : library_(std::move(library)),
      name_(facts.device + " port " + std::to_string(facts.port)),
      port_(static_cast<std::uint8_t>(facts.port)) {
  try {
    open(facts.device);
    read_attributes();
    choose_address(settings);
    std::snprintf(address_.device, sizeof address_.device, "%s", facts.device.c_str());
  } catch (...) {
    close();
    throw;
  }
}

Device::~Device() { close(); }

void Device::close() {
  guards_.clear();
  if (forgotten_) return;
  if (channel_ != nullptr) library_->destroy_comp_channel(channel_);
  if (pd_ != nullptr) library_->dealloc_pd(pd_);
  if (context_ != nullptr) library_->close_device(context_);
}

void Device::open(const std::string& device) {
  int count = 0;
  ibv_device** devices = library_->get_device_list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (device == library_->get_device_name(devices[i])) context_ = library_->open_device(devices[i]);
  }
  if (devices != nullptr) library_->free_device_list(devices);
  if (context_ == nullptr) throw failure("opening " + device);
  pd_ = library_->alloc_pd(context_);
  if (pd_ == nullptr) throw failure("a protection domain on " + device);
  channel_ = library_->create_comp_channel(context_);
  if (channel_ == nullptr) throw failure("a completion channel on " + device);
  for (const int fd : {context_->cmd_fd, context_->async_fd, channel_->fd}) {
    if (fd < 0) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (fd != context_->cmd_fd) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    guards_.emplace_back(fd);
  }
}

void Device::read_attributes() {
  ibv_device_attr attributes{};
  if (library_->query_device(context_, &attributes) != 0) throw failure("asking " + name_ + " what it can do");
  ibv_port_attr port{};
  if (query_port(*library_, context_, port_, &port) != 0) throw failure("asking " + name_ + " for its state");
  const auto reads = [](int count) { return static_cast<std::uint8_t>(std::clamp(count, 1, 16)); };
  max_reads_ = reads(attributes.max_qp_init_rd_atom);
  max_completions_ = attributes.max_cqe;
  address_.reads = reads(attributes.max_qp_rd_atom);
  address_.lid = port.lid;
  address_.mtu = static_cast<std::uint8_t>(port.active_mtu);
  address_.port = port_;
  address_.is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET || port.lid == 0;
  gid_index_ = port.gid_tbl_len;
}

void Device::choose_address(const Settings& settings) {
  std::vector<GidFacts> gids;
  for (int i = 0; i < gid_index_; ++i) {
    ibv_gid_entry entry{};
    const int error = library_->query_gid_ex(context_, port_, static_cast<std::uint32_t>(i), &entry, 0, sizeof entry);
    if (error != 0) continue;
    GidFacts facts;
    facts.index = i;
    facts.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoceV2
                 : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1
                                                          : GidType::kInfiniband;
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), facts.raw.begin());
    gids.push_back(facts);
  }
  const bool by_gid = address_.is_global != 0;
  gid_index_ = settings.gid_index >= 0 ? settings.gid_index : by_gid ? choose_gid(gids) : 0;
  const auto found =
      std::find_if(gids.begin(), gids.end(), [&](const GidFacts& gid) { return gid.index == gid_index_; });
  if (found != gids.end()) {
    address_.gid = found->raw;
  } else if (by_gid) {
    throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                       settings.gid_index >= 0
                           ? "verbs: " + name_ + " has no GID with RODA_VERBS_GID_INDEX=" + std::to_string(gid_index_)
                           : "verbs: " + name_ + " has no RoCE address; give its network interface one");
  }
}

bool Device::is_active(std::string* state) const {
  ibv_port_attr port{};
  const bool asked = query_port(*library_, context_, port_, &port) == 0;
  *state = asked ? state_text(port.state) : "gone";
  return asked && port.state == IBV_PORT_ACTIVE;
}

}  // namespace roda::verbs
