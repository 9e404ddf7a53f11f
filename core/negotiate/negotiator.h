// The deterministic half of the engine: applies the log and says what follows from it.
//
// Every rank applies the same records in the same order, starting from the same settings, and so reaches the same
// agreements, buckets and launch order without anybody telling it (state-machine replication; F. B. Schneider,
// "Implementing fault-tolerant services using the state machine approach", ACM Computing Surveys 22(4), 1990). Nothing
// here looks at a clock, at this rank's progress, or at anything else that is not in the log.
//
// Not thread-safe: owned by the holder of the engine's baton.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/negotiate/bucket.h"
#include "core/negotiate/cache.h"
#include "core/negotiate/groups.h"
#include "core/negotiate/members.h"
#include "core/negotiate/request.h"
#include "core/wire/record.h"

namespace roda::negotiate {

// Must be equal on all ranks.
struct Settings {
  int size = 1;
  int cache_capacity = 1024;  // entries per process set
  BucketRules buckets;
  int outstanding = 2;      // buckets in host memory launched and not completed, per process set
  bool hold = false;        // ready tensors wait for a kFlush (HOROVOD_CYCLE_TIME is set)
  std::uint32_t rules = 0;  // of the selection table, for what is launched: PlanQuery::rules
};

// One bucket on its way: tensors of one kind, in the order in which they lie in it.
struct Launch {
  std::int32_t set = 0;
  std::uint64_t sequence = 0;  // counts the set's launches from 1
  std::vector<AgreedPtr> tensors;
  std::size_t bytes = 0;    // as the selection table counts them
  std::uint32_t rules = 0;  // Settings::rules when it was launched
};

// What follows from the log for the engine. Called from apply(), in log order.
class Outcome {
 public:
  virtual ~Outcome() = default;
  // Ranks have announced a tensor; for observers.
  virtual void announced(const std::string& /*name*/, int /*collective*/, std::span<const wire::RankRange> /*ranks*/) {}
  // All ranks have announced it, `last` after the others.
  virtual void complete(const Agreed& /*tensor*/, std::int32_t /*last*/) {}
  // A rank keeps the others waiting, as one of them has found.
  virtual void late(const Lateness& /*lateness*/) {}
  // The launch is to be run. Its taker swaps the object for another one, whose memory is used again.
  virtual void launch(Launch& launch) = 0;
  // The ranks disagree: every one of them ends this tensor with `error`; its name is free again.
  virtual void refuse(std::int32_t set, const std::string& name, const Status& error) = 0;
  // This rank announced `bit` when it already meant something else: announce the tensor in full.
  virtual void announce_again(std::int32_t set, int bit) = 0;
  // `bit` no longer stands for what this rank announced by it; the announcement itself was taken over in full. One that
  // is still on its way in the log is not meant: announce_again comes for that.
  virtual void bit_freed(std::int32_t set, int bit) = 0;
  // On every rank: the round of `bit` is over, or it stands for another tensor now, or for none.
  virtual void round_over(std::int32_t /*set*/, int /*bit*/) {}
  // From now on, until then, not all ranks will announce `bit`: the tensor was announced in full, or it stands for
  // none.
  virtual void disputed(std::int32_t /*set*/, int /*bit*/) {}
  virtual void join_done(std::int32_t set, std::int32_t last_rank) = 0;
  virtual void set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) = 0;
  virtual void set_removed(std::int32_t id) = 0;
  // The last launches of that removed set have ended on all its members.
  virtual void set_ended(std::uint64_t /*number*/) {}
  // `how` the rank came to it.
  virtual void shutdown(std::int32_t rank, const std::string& how) = 0;
  // Every rank has said kDrained: memory may be torn down.
  virtual void all_drained() = 0;
  // A rank wants to know who is there; one that is.
  virtual void roll_called() {}
  virtual void present(std::int32_t /*rank*/) {}
  // Rank 0 has found better settings: adjust() is to be called with them.
  virtual void tuned(const Tuning& /*tuning*/) {}
};

class Negotiator {
 public:
  // `rank`: this process's, only used to tell which announcements were its own.
  Negotiator(const Settings& settings, int rank);

  // A static process set, before the first record. Returns its id; ranks sorted ascending. Set 0 exists already.
  std::int32_t add_static_set(const std::vector<std::int32_t>& ranks);

  // One record. An error means the log itself is broken: the engine must abort.
  Status apply(std::span<const std::byte> record, Outcome* outcome);

  // Log records applied so far.
  std::uint64_t applied() const { return applied_; }

  // The settings that may change while the negotiator works: only during tuned(), so that they change at the same place
  // of the log on all ranks.
  Settings settings() const { return settings_; }
  void adjust(const Settings& settings) { settings_ = settings; }

  // The bit by which this request may be announced, -1: announce it in full. `name_hash`: see Cache::find.
  int cached_bit(const Request& request, std::size_t name_hash = 0);

  // --- views, for announcements and reports ---
  bool has_set(std::int32_t id) const { return sets_.count(id) != 0; }
  const std::vector<std::int32_t>& members(std::int32_t id) const { return sets_.at(id).members.ranks(); }
  // The set's number among all sets that there ever were: an id is used again, a number is not.
  std::uint64_t number(std::int32_t id) const { return sets_.at(id).number; }
  // Index of a world rank in the set, -1 if it is not a member.
  int position(std::int32_t id, std::int32_t rank) const { return sets_.at(id).members.position(rank); }
  // True while a set waits for completions before it can launch what is ready.
  bool wants_finished(std::int32_t set) const;
  // Of the set's ready tensors in host memory some wait for others to join them. Those on devices are in filling().
  bool holds_back(std::int32_t set) const {
    const Set& held = sets_.at(set);
    return settings_.hold && !held.ready.empty() && held.flushed < held.ready_count;
  }
  std::uint64_t ready_count(std::int32_t set) const { return sets_.at(set).ready_count; }
  const FillingBuckets& filling(std::int32_t set) const { return sets_.at(set).filling; }
  // Whether it is for this rank to say what all members come to know at the same time: it is the first of them that has
  // not joined.
  bool is_speaker(std::int32_t set) const;

  // Tensors that some members announced and others did not, agreed ones that wait for a group which nobody completes,
  // and process sets that only some ranks want to add or remove: for the stall report.
  struct Waiting {
    std::int32_t set;
    std::string name;
    std::vector<std::int32_t> missing;  // world ranks; of a group's tensor: who submitted a member outside the group
  };
  std::vector<Waiting> waiting() const;

 private:
  struct Pending {                                   // announced in full by some members
    std::vector<std::unique_ptr<Request>> requests;  // per member
    int count = 0;
  };
  struct Set {
    Set(std::int32_t i, std::uint64_t n, std::vector<std::int32_t> ranks, std::int32_t rank, int cache_capacity)
        : id(i), number(n), members(std::move(ranks)), self(members.position(rank)), cache(cache_capacity) {}
    int size() const { return members.size(); }
    // Whether all members but those that have joined have arrived, and any has.
    bool is_complete(const wire::RankRanges& arrived) const {
      if (arrived.empty() || arrived.count() == size() || joined.empty()) return arrived.count() == size();
      wire::RankRanges both = arrived;
      both.add(joined.ranges());
      return both.count() == size();
    }
    std::int32_t id;
    std::uint64_t number;
    Members members;
    int self;  // the position of this process; -1: it is no member
    Cache cache;
    std::map<std::string, Pending> pending;
    std::map<std::vector<std::int32_t>, std::int32_t> placements;  // Agreed::placement by Agreed::devices
    wire::RankRanges joined;                                       // by position
    std::int32_t last_joined = -1;
    Groups groups;
    FillingBuckets filling;         // of tensors on devices
    KeptQueue<AgreedPtr> ready;     // the others
    std::uint64_t ready_count = 0;  // of those that ever became ready
    std::uint64_t flushed = 0;      // hold: those below this count may launch
    std::uint64_t launched = 0;
    KeptQueue<std::uint64_t> outstanding;  // sequence numbers, ascending
  };

  struct Leaving {  // a removed set
    Members members;
    wire::RankRanges ended;  // by position: its launches have ended there
  };

  Set* find(std::int32_t id);  // null: there is none
  void make_set(std::int32_t id, std::vector<std::int32_t> ranks);
  void remove_set(std::int32_t id, Outcome* outcome);
  void end_set(std::uint64_t number, std::int32_t rank, Outcome* outcome);
  Status apply_item(const wire::ItemView& item, std::int32_t rank, std::uint64_t looked_up_at, Outcome* outcome);
  Status apply_add_set(const wire::ItemView& item, std::int32_t rank, Outcome* outcome);
  Status apply_bits(const wire::ItemView& item, std::int32_t rank, std::uint64_t looked_up_at, Outcome* outcome);
  // By everybody in arriving_, of whom `ranks` are the world ranks; `own`: this process's is among them.
  void arrive_by_bit(Set* set, int bit, std::span<const wire::RankRange> ranks, bool own, std::uint64_t looked_up_at,
                     Outcome* outcome);
  Status arrive(Request request, Outcome* outcome);
  static void add_pending(Set* set, int member, Request request);
  void join(Set* set, int member, Outcome* outcome);
  void complete_pending(Set* set, const std::string& name, Outcome* outcome);
  bool is_disputed(Set* set, int bit, Outcome* outcome);
  void complete_cached(Set* set, int bit, Outcome* outcome);
  void to_pending(Set* set, int bit, Outcome* outcome);
  void make_ready(Set* set, AgreedPtr agreed, Outcome* outcome);
  void add_ready(Set* set, AgreedPtr agreed) const;
  void close_group(Set* set, std::optional<Groups::Closed> group, Outcome* outcome);
  void leave_groups(Set* set, const std::vector<const Request*>& requests, Outcome* outcome);
  using Votes = std::map<std::vector<std::int32_t>, std::set<std::int32_t>>;  // subject -> who asked
  void add_vote(const std::vector<std::int32_t>& ranks, const char* what, const std::set<std::int32_t>& who,
                std::vector<Waiting>* out) const;
  static void add_held_groups(const Set& set, std::vector<Waiting>* out);
  // Whether all have now asked for it; then the vote is over.
  bool consent(Votes* votes, const std::vector<std::int32_t>& subject, std::int32_t rank);
  void launch_ready(Outcome* outcome);
  void launch_complete(Set* set, Outcome* outcome);
  void launch_bucket(Set* set, Outcome* outcome);  // of launch_.tensors

  Settings settings_;
  int rank_;
  std::uint64_t applied_ = 0;
  wire::Parts parts_;
  wire::RankRanges arriving_;  // positions of an item's ranks, while it is applied
  std::int32_t speaks_ = -1;   // whose word it is; of several ranks the one that came last
  Launch launch_;              // the one that is being made; kept for its memory
  std::map<std::int32_t, Set> sets_;
  std::uint64_t sets_made_ = 0;
  std::map<std::uint64_t, Leaving> leaving_;  // by number
  std::deque<std::int32_t> free_ids_;         // reused first in, first out
  std::int32_t next_id_ = 1;
  Votes add_votes_;     // of the ranks of a set
  Votes remove_votes_;  // of {id}
  bool shut_down_ = false;
  std::set<std::int32_t> drained_;
};

}  // namespace roda::negotiate
