// The links between hosts: one authenticated connection from every other host's leader to the leader above it in the
// tree of hosts (algorithms/topology/host_tree.h).
//
// Frames carry a kind byte and a record or an error. Threads: the holder of the baton.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithms/topology/host_tree.h"
#include "core/bootstrap/store.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {
class SecureConnection;
}

namespace roda::control {

class HostLinks {
 public:
  struct Endpoint {
    std::string key;            // prefix of the store's keys, unique per job generation
    std::string address, host;  // of this host: where others reach it, and its name
    Secret secret;              // of the job
    Deadline deadline;
    std::chrono::milliseconds silence{30'000};  // a host that answers nothing, the kernel's probes too, is given up
    int fan_out = topology::kHostFanOut;
  };
  // `leaders`: world ranks of the hosts' leaders, by host; host 0 is the tree's root. Collective over the leaders;
  // blocks.
  static Status form(Store& store, const std::vector<std::int32_t>& leaders, std::int32_t self,
                     const Endpoint& endpoint, std::unique_ptr<HostLinks>* out);
  ~HostLinks();

  // Readable when a link has news.
  int fd() const { return poll_.get(); }
  // Moves bytes. RODA_ERR_PEER names the leader whose link broke. `abort` receives a cause that another host sent.
  Status service(Status* abort);
  // Records arrived that were not received yet: their links are silent about them.
  bool has_arrived() const { return !arrived_.empty(); }
  // The next record that arrived, and whether it came from above.
  bool receive(std::vector<std::byte>* record, bool* from_above);
  // To the leader above, or to all that are directly below; to nobody where there is none. Queued; service() writes.
  void send_up(std::span<const std::byte> record);
  void send_down(std::span<const std::byte> record);
  // To all of them.
  void send_abort(const Status& cause);
  // True while bytes wait to be written.
  bool unsent() const;
  // Records so far, since the links formed. Any thread.
  struct Traffic {
    std::uint32_t links = 0;
    std::uint64_t sent = 0, received = 0, bytes = 0;
  };
  Traffic traffic() const;
  // The other end of a link has ended or departed, and its goodbye was not read here. Any thread.
  bool has_hung_up() const;
  // The links end in an orderly way: their end is no failure. Blocks, a second at most, while what was sent finds no
  // room.
  void depart();

 private:
  enum class Frame : std::uint8_t { kHello = 1, kRecord = 2, kAbort = 3, kGoodbye = 4 };
  struct Link;
  struct Arrived {
    std::vector<std::byte> record;
    bool from_above;
  };

  HostLinks();
  // In this order: connect upwards, then listen and accept: whoever connects finds a host that answers.
  Status connect_to(Store& store, std::int32_t parent, std::int32_t self, const Endpoint& endpoint);
  Status listen(Store& store, std::int32_t self, const Endpoint& endpoint, UniqueFd* listener);
  Status accept_all(Store& store, const std::vector<std::int32_t>& children, std::int32_t self,
                    const Endpoint& endpoint, const UniqueFd& listener);
  Status identify(std::vector<std::unique_ptr<SecureConnection>>* strangers, const std::vector<std::int32_t>& children);
  Status add(std::int32_t rank, bool is_above, std::unique_ptr<SecureConnection> connection);
  Status move(Link& link, Status* abort);
  Status flush(Link& link);
  Status take_frame(Link& link, const std::vector<std::uint8_t>& frame, Status* abort);
  static void queue_frame(Link& link, Frame kind, std::span<const std::byte> payload);
  void queue_record(Link& link, std::span<const std::byte> record);
  void count(std::atomic<std::uint64_t>* records, std::size_t bytes);

  UniqueFd poll_;
  ForkGuard guard_;
  std::vector<Link> links_;
  std::deque<Arrived> arrived_;
  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_{0};  // of records
};

}  // namespace roda::control
