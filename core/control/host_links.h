// The links between hosts: one authenticated connection from every other host's leader to the leader that orders the
// log.
//
// A star of leaders. Frames carry a kind byte and a record or an error. Threads: the holder of the baton.
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
  };
  // `leaders`: world ranks of the hosts' leaders; leaders[0] orders. Collective over the leaders; blocks.
  static Status form(Store& store, const std::vector<std::int32_t>& leaders, std::int32_t self, const Options& options,
                     std::unique_ptr<HostLinks>* out);
  virtual ~HostLinks() = default;

  // Readable when a link has news.
  virtual int fd() const = 0;
  // Moves bytes. RODA_ERR_PEER names the leader whose link broke. `abort` receives a cause that another host sent.
  virtual Status service(Status* abort) = 0;
  // The next record that arrived.
  virtual bool receive(std::vector<std::byte>* record) = 0;
  // To the orderer from another leader; to all other leaders from the orderer. Queued; service() writes.
  virtual Status send(std::span<const std::byte> record) = 0;
  virtual Status send_abort(const Status& cause) = 0;
  // True while bytes wait to be written.
  virtual bool unsent() const = 0;
  // The links end in an orderly way: their end is no failure.
  virtual void depart() = 0;
};

}  // namespace roda::control
