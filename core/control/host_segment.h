// What the ranks of one host share for control: the log, the rings towards the host's leader, who sleeps, who left, and
// the one cell in which the first error is written.
//
// Formed through the job's store and descriptors passed between the processes; nothing has a name in the file system.
// Threads: the holder of the baton, but abort() and aborted() from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/control/log_ring.h"
#include "plugins/base/fd_mailbox.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/shared_segment.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::control {

class HostSegment {
 public:
  // Collective over the ranks of this host. `ranks`: their world ranks by local rank; the first is the leader. `key`
  // makes the store's keys unique per job and generation. `hosts`: the names of the job's hosts, with spaces between
  // them, for tools that find them here; equal on all ranks. Blocks until all have mapped the segment, or the deadline.
  static Status form(Store& store, const std::string& key, const std::vector<std::int32_t>& ranks, std::int32_t self,
                     std::string hosts, Deadline deadline, std::unique_ptr<HostSegment>* out);

  LogRing& log() { return log_; }
  // Records of this host's ranks on their way to the leader, where the log is ordered on another host.
  LogRing& up() { return up_; }

  int local_rank() const { return local_rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::int32_t world_rank(int local) const { return ranks_[static_cast<std::size_t>(local)]; }

  // Publishes the core that the caller runs on. True when another rank of this host that is awake was last seen on the
  // same one: a wait between the two is shorter if the waiter yields. Costs a few nanoseconds.
  bool shares_core();

  // --- sleeping: arm, look once more, sleep on doorbell(), disarm ---
  int doorbell() const { return doorbells_[static_cast<std::size_t>(local_rank_)].get(); }
  void arm();
  void disarm();
  // The caller saw that its doorbell may be readable: the next arm() empties it.
  void note_bell() { rung_ = true; }
  // Rings those that published that they sleep. After the news was written.
  void wake(int local);
  void wake_all();

  // --- ranks that end ---
  // Readable when the process of that local rank is gone; -1 for this rank.
  int process_fd(int local) const { return processes_[static_cast<std::size_t>(local)].get(); }
  // Hangs up when no process holds the rank's own end any more: the rank has ended, has become another program, or has
  // closed all its descriptors. Forked children do not hold it. -1 for this rank.
  int presence_fd(int local) const { return presences_[static_cast<std::size_t>(local)].get(); }
  // Which of these, once one of the two rang: the end of a sentence whose subject is that rank.
  std::string how_it_ended(int local) const;
  void depart();  // this rank leaves in an orderly way
  bool departed(int local) const;
  bool has_ended(int local, int limit_ms = 0) const;  // its process, by then; false where that can't be known
  bool is_absent(int local) const;                    // presence_fd() has hung up

  // --- memory of each rank that lives as long as any rank of the host, and that tools find through /proc ---
  static constexpr std::size_t kRoomBytes = 129 * 4096;
  // Zeros at first.
  std::span<std::byte> room(int local) const;

  // --- the first error of the host; sticky ---
  void abort(const Status& cause);
  bool is_aborted() const;
  Status abort_cause() const;

 private:
  struct Header;
  struct RankCell;
  HostSegment(std::vector<std::int32_t> ranks, int local_rank, std::string hosts);
  std::size_t log_offset() const;
  std::size_t up_offset() const;
  std::size_t rooms_offset() const;
  std::size_t hosts_offset() const { return rooms_offset() + ranks_.size() * kRoomBytes; }
  std::size_t total_bytes() const { return hosts_offset() + hosts_.size(); }
  Status open_own();
  Status create_segment();
  Status exchange(Store& store, const std::string& key, Deadline deadline);
  Status left(int local, Store& store, const std::string& key) const;
  Status take(FdMailbox::Message message, int* member);
  void layout();
  Status wait_for_all(Store& store, const std::string& key, Deadline deadline);
  RankCell& cell(int local) const;
  void ring(int local);

  std::vector<std::int32_t> ranks_;
  int local_rank_;
  std::string hosts_;
  SharedSegment segment_;
  std::uint64_t nonce_ = 0;
  bool armed_ = false;
  bool rung_ = false;  // the doorbell may be readable
  int core_ = 0;       // what was published last, 1 + the core's number; 0: none
  Header* header_ = nullptr;
  LogRing log_;
  LogRing up_;
  std::vector<UniqueFd> doorbells_;  // eventfds, per local rank
  std::vector<UniqueFd> processes_;  // pidfds, per local rank
  std::vector<UniqueFd> presences_;  // reading ends of pipes, per local rank
  std::vector<pid_t> pids_;          // per local rank; 0: this one, or not to be seen from here
  UniqueFd present_;                 // the writing end of this rank's pipe, nobody else's
  ForkGuard present_guard_;
};

}  // namespace roda::control
