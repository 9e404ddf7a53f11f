// One opened port of an RDMA device: its address, its protection domain, its completion channel.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "transports/verbs/choice.h"
#include "transports/verbs/library.h"
#include "transports/verbs/settings.h"

namespace roda::verbs {

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
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

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
  // In a forked child nothing of it may be touched.
  void forget() { forgotten_ = true; }

 private:
  void open(const std::string& device);
  void close();
  void read_attributes();
  void choose_address(const Settings& settings);

  std::shared_ptr<const Library> library_;
  std::string name_;
  std::uint8_t port_;
  bool forgotten_ = false;
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
