#include "transports/verbs/device.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "plugins/base/symbols.h"

namespace roda::verbs {
namespace {

template <typename Function>
void demand(void* handle, const char* name, const std::string& file, Function* function) {
  if (look_up(handle, name, function)) return;
  throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                     file + " has no " + name + ": it is older than rdma-core 32; install a newer libibverbs");
}

std::string listed(const std::vector<PortFacts>& ports) {
  std::string text;
  for (const PortFacts& port : ports) {
    text += (text.empty() ? "" : ", ") + port.device + ":" + std::to_string(port.port) + " (" + port.state + ")";
  }
  return text.empty() ? "there is no RDMA device" : "there are " + text;
}

std::size_t find_wanted(const std::vector<PortFacts>& ports, const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string device = word.substr(0, colon);
  const int port = colon == std::string::npos ? 1 : std::atoi(word.c_str() + colon + 1);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].device != device || ports[i].port != port) continue;
    if (ports[i].is_active) return i;
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, "RODA_VERBS_DEVICES names " + word + ", whose port is " + ports[i].state);
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "RODA_VERBS_DEVICES names " + word + "; " + listed(ports));
}

// Higher is better, 0 is of no use.
int worth(const ibv_gid_entry& entry) {
  const Gid gid(entry.gid.raw);
  if (std::ranges::all_of(gid, [](std::uint8_t byte) { return byte == 0; })) return 0;
  const bool is_link_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
  const int address = is_ipv4(gid) ? 3 : is_link_local ? 1 : 2;
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) return 3 + address;
  return entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? address : 0;
}

int node_of_cpu(int cpu) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/node";
  for (int node = 0; node < 1024; ++node) {
    if (::access((folder + std::to_string(node)).c_str(), F_OK) == 0) return node;
  }
  return -1;
}

// The functions take the part of the attributes that has been there from the beginning; the rest stays zero.
int query_port(const Library& library, ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  *attributes = ibv_port_attr{};
  return library.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

const char* state_text(ibv_port_state state) {
  static constexpr const char* kTexts[] = {"in an unknown state", "down", "initialising",
                                           "armed, without a subnet manager", "active"};  // by ibv_port_state
  return kTexts[state <= IBV_PORT_ACTIVE ? state : 0];
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

std::shared_ptr<const Library> Library::open(const std::string& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw sdk::Failure(
        RODA_ERR_UNAVAILABLE,
        std::string("libibverbs can't be opened (Debian: libibverbs1 and ibverbs-providers): ") + ::dlerror());
  }
  auto library = std::make_shared<Library>();
#define RODA_VERBS_DEMAND(name) demand(handle, "ibv_" #name, file, &library->name);
  RODA_VERBS_FUNCTIONS(RODA_VERBS_DEMAND)
#undef RODA_VERBS_DEMAND
  demand(handle, "_ibv_query_gid_ex", file, &library->query_gid_ex);
  look_up(handle, "ibv_reg_dmabuf_mr", &library->reg_dmabuf_mr);
  return library;
}

std::vector<std::size_t> choose_ports(const std::vector<PortFacts>& ports, const std::string& wanted, int near_node,
                                      std::size_t most) {
  std::vector<std::size_t> chosen;
  std::istringstream words(wanted);
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty()) chosen.push_back(find_wanted(ports, word));
  }
  const auto add = [&](auto&& fits) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].is_active && fits(ports[i])) chosen.push_back(i);
    }
  };
  if (chosen.empty() && near_node >= 0) add([&](const PortFacts& port) { return port.numa_node == near_node; });
  if (chosen.empty()) add([](const PortFacts&) { return true; });
  if (chosen.empty()) throw sdk::Failure(RODA_ERR_UNAVAILABLE, "no RDMA port is active: " + listed(ports));
  if (chosen.size() > most) chosen.resize(most);
  return chosen;
}

bool is_ipv4(Gid gid) {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(std::begin(kPrefix), std::end(kPrefix), gid.begin());
}

std::string gid_text(Gid gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool is_short = is_ipv4(gid);
  return ::inet_ntop(is_short ? AF_INET : AF_INET6, gid.data() + (is_short ? 12 : 0), text, sizeof text);
}

int choose_gid(const std::vector<ibv_gid_entry>& gids) {
  const auto best = std::ranges::max_element(gids, {}, worth);  // the first among equals
  return best != gids.end() && worth(*best) > 0 ? static_cast<int>(best->gid_index) : -1;
}

int near_numa_node() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  int common = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const int node = node_of_cpu(cpu);
    if (node < 0 || (common >= 0 && node != common)) return -1;
    common = node;
  }
  return common;
}

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

void Device::close() {
  guards_.clear();
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
  std::vector<ibv_gid_entry> gids;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(gid_index_); ++i) {
    ibv_gid_entry entry{};
    if (library_->query_gid_ex(context_, port_, i, &entry, 0, sizeof entry) == 0) gids.push_back(entry);
  }
  const bool by_gid = address_.is_global != 0;
  gid_index_ = settings.gid_index >= 0 ? settings.gid_index : by_gid ? choose_gid(gids) : 0;
  const auto found = std::ranges::find(gids, static_cast<std::uint32_t>(gid_index_), &ibv_gid_entry::gid_index);
  if (found != gids.end()) {
    std::ranges::copy(found->gid.raw, address_.gid.begin());
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
