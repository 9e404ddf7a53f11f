// The control plane as the engine sees it: one log that every rank appends to and reads in the same order, a way to
// sleep until there is news, and the end of the job.
//
// Inside a host the log lies in shared memory and whoever speaks appends to it. In a job on several hosts ranks speak
// to the leader of their host, who combines what they say and sends it up a tree of leaders over authenticated TCP; the
// leader of the first rank's host orders, and every record travels down the tree again, to be appended to the log of
// each host. So what a leader sends and receives for one announcement of all ranks grows with the tree's fan-out alone.
//
// Threads: the holder of the baton, except abort(), is_aborted(), has_failed(), await_process_end() and traffic(): any
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/topology/topology.h"
#include "core/bootstrap/store.h"
#include "core/control/host_links.h"
#include "core/control/host_segment.h"
#include "core/wire/combiner.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::control {

class ControlPlane {
 public:
  struct Membership : HostLinks::Endpoint {
    int cache_capacity = 1024;  // of every process set
  };
  // Collective over the job. Blocks until every rank can be heard, or fails naming those that can't.
  static Status connect(Store& store, const Topology& topology, int rank, const Membership& membership,
                        std::unique_ptr<ControlPlane>* out);
  ~ControlPlane();

  // Hands a record of any length to the log. Where the log has no room, since a rank lags, that rank is woken, and what
  // is left waits for service().
  Status append(std::span<const std::byte> record);
  // The next record of the log; false when there is none.
  bool read(std::vector<std::byte>* record);

  // Whether read() or service() may find something: a look of a few instructions, for a rank that spins.
  bool may_have_news() const { return links_ != nullptr || segment_->log().has_record(); }

  // Moves links and notices processes that died. Cheap when called often: looks at descriptors only now and then unless
  // `thorough`. An error is the end of the job; it was published already.
  Status service(bool thorough, CoarseClock::time_point now = CoarseClock::now());

  // Sleeping: arm(), look once more (pending(), service()), sleep on fd(), disarm().
  int fd() const { return poll_.get(); }
  void arm();
  void disarm();
  void note_bell() { segment_->note_bell(); }  // after a sleep that something ended
  bool pending() const;
  // A record waits for room, for which nobody rings: service() soon.
  bool holds_record() const { return !held_.empty() || !unsent_.empty(); }
  // Wakes every rank that sleeps, on this host at once and on the others with the records on their way.
  void wake_all() { segment_->wake_all(); }

  // Null but for leaders in a job on several hosts. What it combines depends on what the log says of process sets and
  // cached bits, and it is told as that is applied.
  wire::Combiner* combiner() { return combiner_.get(); }

  // The ranks through which what this one says reaches the log, the nearest first.
  const std::vector<std::int32_t>& way_up() const { return way_up_; }

  // Whether a roll call of a rank that is heard through this one has passed on its way up, since the last question.
  bool heard_roll_call() { return !way_up_.empty() && combiner_ != nullptr && combiner_->heard_roll_call(); }

  // Memory of each rank of this host, this one's and the others' by local rank; see HostSegment.
  std::span<std::byte> room() const { return segment_->room(segment_->local_rank()); }
  std::vector<std::span<std::byte>> rooms() const;

  // With other hosts; nothing where this rank leads none. Any thread.
  HostLinks::Traffic traffic() const { return links_ != nullptr ? links_->traffic() : HostLinks::Traffic(); }

  // Another rank of this host runs on the caller's core; see HostSegment.
  bool shares_core() { return segment_->shares_core(); }

  // Ends the job on every rank with `cause`, unless an earlier cause was published. Any thread.
  void abort(const Status& cause) { segment_->abort(cause); }
  bool is_aborted() const { return segment_->is_aborted(); }
  Status abort_cause() const { return segment_->abort_cause(); }
  // The job is aborted, or will be at the next service(): a rank of this host ended, or a link to another host did. Any
  // thread.
  bool has_failed() const;

  // Waits until the process of another rank of this host is gone; see Engine::await_process_end. Any thread.
  std::optional<bool> await_process_end(std::int32_t rank, std::int64_t limit_us) const;

  // This rank leaves in an orderly way: its end is no failure any more.
  void depart();

 private:
  ControlPlane(std::string host_name, bool is_root, std::unique_ptr<HostSegment> segment);
  Status watch();
  void let_links_ring(bool on);
  Status look();  // at the descriptors: processes that died, the timer
  Status move_links();
  Status forward();
  Status spread(std::span<const std::byte> record, bool* accepted);
  Status set_timer();
  void tell_other_hosts();
  Status append_to(LogRing& ring, std::span<const std::byte> record, bool* accepted);
  Status say(std::span<const std::byte> record, bool* accepted);
  Status send_unsent();

  const std::string host_name_;
  std::unique_ptr<HostSegment> segment_;
  std::unique_ptr<HostLinks> links_;  // null where there is no combiner
  std::unique_ptr<wire::Combiner> combiner_;
  std::vector<std::int32_t> way_up_;
  bool is_root_ = false;  // this host orders the log
  bool spans_hosts_ = false;
  // Leaders: rings when what the combiner holds is due; max() when it is not set.
  UniqueFd timer_;
  std::chrono::steady_clock::time_point timer_due_ = std::chrono::steady_clock::time_point::max();
  UniqueFd poll_;
  bool links_ring_ = true;
  CoarseClock::time_point next_look_{};
  bool abort_sent_ = false;
  std::vector<std::byte> held_;                // on its way down: a record that the log had no room for yet
  std::deque<std::vector<std::byte>> unsent_;  // this rank's own
};

}  // namespace roda::control
