// The links between hosts: one authenticated connection from every other host's leader to the leader above it in the
// tree of hosts (host_tree.h).
//
// Frames carry a kind byte and a record or an error. Threads: the holder of the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda::control {

class HostLinks {
 public:
  struct Options {
    std::string key;                // prefix of the store's keys
    std::string network_interface;  // to listen on; empty: chosen
    Secret secret;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds silence;  // the kernel probes an idle link; one that is silent for so long is broken
    int fan_out = 8;                    // hosts that connect to one
  };
  // `leaders`: world ranks of the hosts' leaders, by host; host 0 is the tree's root. Collective over the leaders;
  // blocks.
  static Status form(Store& store, const std::vector<std::int32_t>& leaders, std::int32_t self, const Options& options,
                     std::unique_ptr<HostLinks>* out);
  virtual ~HostLinks() = default;

  // Readable when a link has news.
  virtual int fd() const = 0;
  // Moves bytes. RODA_ERR_PEER names the leader whose link broke. `abort` receives a cause that another host sent.
  virtual Status service(Status* abort) = 0;
  // The next record that arrived, and whether it came from above.
  virtual bool receive(std::vector<std::byte>* record, bool* from_above) = 0;
  // To the leader above, or to all that are directly below; to nobody where there is none. Queued; service() writes.
  virtual void send_up(std::span<const std::byte> record) = 0;
  virtual void send_down(std::span<const std::byte> record) = 0;
  // To all of them.
  virtual void send_abort(const Status& cause) = 0;
  // True while bytes wait to be written.
  virtual bool unsent() const = 0;
  // The links end in an orderly way: their end is no failure.
  virtual void depart() = 0;
};

}  // namespace roda::control
