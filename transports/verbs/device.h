// One opened port of an RDMA device: its address, its protection domain, its completion channel.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "transports/verbs/verbs.h"

namespace roda::verbs {

// libibverbs, opened at run time behind a table of the functions that it exports, so that one binary serves machines
// with and without it. What its headers define inline (posting, polling) goes through the opened device itself.

// clang-format off
#define RODA_VERBS_FUNCTIONS(X)                                                                              \
  X(get_device_list) X(free_device_list) X(get_device_name) X(open_device) X(close_device) X(query_device)   \
  X(query_port) X(get_async_event) X(ack_async_event) X(event_type_str) X(wc_status_str) X(fork_init)        \
  X(alloc_pd) X(dealloc_pd) X(reg_mr) X(dereg_mr) X(create_comp_channel) X(destroy_comp_channel)             \
  X(create_cq) X(destroy_cq) X(get_cq_event) X(ack_cq_events) X(create_qp) X(modify_qp) X(destroy_qp)
// clang-format on

// Immutable once opened; any thread. Never closed: its providers register handlers that outlive a closing.
struct Library {
#define RODA_VERBS_MEMBER(name) decltype(&::ibv_##name) name = nullptr;
  RODA_VERBS_FUNCTIONS(RODA_VERBS_MEMBER)
#undef RODA_VERBS_MEMBER
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;  // null before rdma-core 34

  // `file` is a name for the dynamic linker. Throws sdk::Failure (RODA_ERR_UNAVAILABLE) with the reason.
  static std::shared_ptr<const Library> open(const std::string& file);
};

// Which devices and which address: plain functions over facts, so that tests need no device.
struct PortFacts {
  std::string device;
  int port = 1;
  bool is_active = false;
  std::string state;  // in words, for errors
  int numa_node = -1;
};

// Indices into `ports`, in the order of use, at most `most`.
//
// With `wanted` ("mlx5_0,mlx5_1:2": device, port 1 unless given) exactly those, each of which must be there and active.
// Without it the active ones; where some are on `near_node` (-1: unknown), only these. Throws sdk::Failure
// (RODA_ERR_UNAVAILABLE) that says what there is.
std::vector<std::size_t> choose_ports(const std::vector<PortFacts>& ports, const std::string& wanted, int near_node,
                                      std::size_t most);

using Gid = std::span<const std::uint8_t, 16>;
bool is_ipv4(Gid gid);  // mapped: ::ffff:a.b.c.d
// As an address is written.
std::string gid_text(Gid gid);

// The entry to use on an Ethernet port: RoCE v2 before v1, then IPv4, then global IPv6, then link-local; the first
// among equals. -1: none is usable.
int choose_gid(const std::vector<ibv_gid_entry>& gids);

// The NUMA node that all processors this process may run on belong to, or -1.
int near_numa_node();

// How a peer reaches a port.
struct PortAddress {
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  std::uint8_t is_global = 0;  // by GID, not by LID
  std::uint8_t mtu = 0;        // enum ibv_mtu
  std::uint8_t reads = 0;      // that it serves at a time on one connection
  std::uint8_t port = 1;
  char device[26] = {};
};

// Threads: as the ABI says, one at a time. Throws sdk::Failure. Forked children do not keep the descriptors.
class Device {
 public:
  // The list of ports of this machine; empty when there is no device.
  static std::vector<PortFacts> list(const Library& library);
  Device(std::shared_ptr<const Library> library, const PortFacts& facts, const Settings& settings);
  ~Device() { close(); }

  const Library& library() const { return *library_; }
  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  ibv_comp_channel* channel() const { return channel_; }
  const PortAddress& address() const { return address_; }
  int gid_index() const { return gid_index_; }
  int max_completions() const { return max_completions_; }
  std::uint8_t max_reads() const { return max_reads_; }  // that it has on their way at a time on one connection
  const std::string& name() const { return name_; }      // "mlx5_0 port 1"
  // Asks the port.
  bool is_active(std::string* state) const;

 private:
  void open(const std::string& device);
  void close();
  void read_attributes();
  void choose_address(const Settings& settings);

  std::shared_ptr<const Library> library_;
  std::string name_;
  std::uint8_t port_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  PortAddress address_;
  int gid_index_ = 0;
  int max_completions_ = 0;
  std::uint8_t max_reads_ = 1;
  std::vector<ForkGuard> guards_;
};

}  // namespace roda::verbs
