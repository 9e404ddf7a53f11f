// The control plane as the engine sees it: one log that every rank appends to and reads in the same order, a way to
// sleep until there is news, and the end of the job.
//
// Inside a host the log lies in shared memory and whoever speaks appends to it. Across hosts the leader of the first
// rank's host orders: the other hosts' records travel to it over authenticated TCP, and every record comes back to each
// host's leader, who appends it to the log of its host.
//
// Threads: the holder of the baton, except abort() and is_aborted(): any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/bootstrap/topology.h"
#include "core/control/host_links.h"
#include "core/control/host_segment.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::control {

class ControlPlane {
 public:
  struct Options {
    std::string key;                // prefix of the store's keys, unique per job generation
    std::string network_interface;  // for links between hosts; empty: chosen
    Secret secret;                  // of the job
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds silence{30'000};  // a host that answers nothing for so long is given up
  };
  // Collective over the job. Blocks until every rank can be heard, or fails naming those that can't.
  static Status connect(Store& store, const Topology& topology, const Options& options,
                        std::unique_ptr<ControlPlane>* out);
  ~ControlPlane();

  // Hands a record to the log. RODA_AGAIN's stand-in is *accepted false: a rank lags; it was woken, service and retry.
  Status append(std::span<const std::byte> record, bool* accepted);
  // The next record of the log; false when there is none.
  bool read(std::vector<std::byte>* record);

  // Moves links and notices processes that died. Cheap when called often: looks at descriptors only now and then unless
  // `thorough`. An error is the end of the job; it was published already.
  Status service(bool thorough);

  // Sleeping: arm(), look once more (pending(), service()), sleep on fd(), disarm().
  int fd() const { return poll_.get(); }
  void arm();
  void disarm();
  void note_bell() { segment_->note_bell(); }  // after a sleep that something ended
  bool pending() const;
  // Wakes every rank that sleeps, on this host at once and on the others with the records on their way.
  void wake_all() { segment_->wake_all(); }

  // How to wait for other ranks.
  WaitPolicy wait_policy() const { return WaitPolicy(topology_.has_core_each); }
  // Another rank of this host runs on the caller's core; see HostSegment.
  bool shares_core() { return segment_->shares_core(); }

  // Ends the job on every rank with `cause`, unless an earlier cause was published. Any thread.
  void abort(const Status& cause);
  bool is_aborted() const { return segment_->is_aborted(); }
  Status abort_cause() const { return segment_->abort_cause(); }

  // This rank leaves in an orderly way: its end is no failure any more.
  void depart();

 private:
  ControlPlane(const Topology& topology, std::unique_ptr<HostSegment> segment);
  Status watch();
  Status note_deaths();
  Status forward();
  void tell_other_hosts();
  Status append_to_log(std::span<const std::byte> record, bool* accepted);

  Topology topology_;
  std::unique_ptr<HostSegment> segment_;
  std::unique_ptr<HostLinks> links_;  // leaders of a job on several hosts, else null
  bool is_root_ = false;              // this host orders the log
  bool spans_hosts_ = false;
  UniqueFd poll_;
  std::chrono::steady_clock::time_point next_look_{};
  bool abort_sent_ = false;
  std::vector<std::byte> held_;  // a record from afar that the ring had no room for yet
};

}  // namespace roda::control
