// A process set at run time on this rank: its groups over the transports, and how far its launches are.
//
// Owned by the holder of the baton.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/execute/group.h"
#include "core/execute/stage.h"
#include "core/launch/wire_memory.h"
#include "core/negotiate/negotiator.h"
#include "core/plan/plan.h"

namespace roda::engine {

// The transports' contexts of this process, made when first needed.
class Contexts {
 public:
  explicit Contexts(const roda_host* host) : host_(host) {}
  Status get(const roda_transport* transport, execute::TransportContext** context);
  const std::vector<std::unique_ptr<execute::TransportContext>>& all() const { return contexts_; }
  // Whether what ended over all of them goes on without this process.
  bool are_settled() const;
  void clear() { contexts_.clear(); }

 private:
  const roda_host* host_;
  std::vector<std::unique_ptr<execute::TransportContext>> contexts_;
};

// The work on a launch's tensors.
struct Work {
  int collective = RODA_ALLREDUCE;  // an Adasum of one host's devices is their average
  int op = RODA_SUM;                // as asked for
  bool stage_averages = false;      // else an average is a sum that is scaled
  int averaged = 1;                 // ranks of each host, whose sum an Adasum between hosts goes by
  bool is_spread = false;           // an average of whole numbers, of which the stage sums up wider ones

  int stage_op() const { return op == RODA_ADASUM || (op == RODA_AVERAGE && !stage_averages) ? int{RODA_SUM} : op; }
};

class SetRuntime {
 public:
  struct Options {
    std::uint64_t number = 0;  // Negotiator::number
    std::string name;          // equal on all members, unique per job and generation
    std::vector<std::int32_t> ranks;
    int rank = 0;  // of this process in the set; -1: not a member
    Shape shape;   // over hosts
    std::uint64_t generation = 0;
    std::uint64_t timeout_ns = 0;
    std::string address;  // where other hosts reach this one; empty: not known
    ResidualBudget* residuals = nullptr;
    execute::ExecuteOptions execute;
  };
  SetRuntime(Options options, Store* store);
  ~SetRuntime();

  // Whose group, and where its members' memory lies.
  struct GroupPlace {
    std::vector<std::int32_t> members;      // of the set, in that order, this rank among others; empty: all of them
    std::int32_t placement = -1;            // negotiate::Agreed's
    std::span<const std::int32_t> devices;  // the same: of each member of the set; empty: host memory
    std::int32_t device = -1;               // of this rank
  };
  // Over that transport; formed at the first call. Null: it is forming; ask again later.
  Status group(execute::TransportContext& context, const GroupPlace& place, execute::TransportGroup** group);
  // A plan at work.
  struct Use {
    std::uint32_t plan = 0;       // Plan::id
    int root = 0;                 // of the set
    std::int32_t placement = -1;  // as in GroupPlace
    auto operator<=>(const Use&) const = default;
  };
  // How a plan's launches keep apart from others.
  struct Needs {
    // Its groups have room for one launch at a time, or tell launches apart by their order alone.
    bool whole_group = false;
    // The plan starts collectives on a device once peers' data have come: what else started there meanwhile would be in
    // another order on every rank.
    bool whole_device = false;
    // All of a launch is put on the device's stream at once, and uses the stream's buffers: any number line up there.
    bool stream_order = false;
  };
  // What this rank does in a plan, and over what. The first launch that needs a route makes the program.
  struct Route {
    std::shared_ptr<const schedule::Program> program;
    bool feeds_back = false;
    std::map<std::size_t, Formats> formats;  // of launches of so many bytes that somebody has asked about
    // Once the groups are formed.
    std::vector<execute::TransportGroup*> groups;  // [stage of the plan] null where there is nothing to do
    Needs needs;
    std::vector<execute::StepData> data;              // [stage of the plan] of data on devices: as this machine has it
    std::vector<execute::TransportGroup*> on_device;  // of the groups: they work on the device's memory
    execute::Stages stages;                           // that run the program
  };
  Route& route(const Use& use) { return routes_[use]; }
  WireMemory& wire_memory() { return wire_memory_; }
  // The plan that a launch runs, and the groups that it runs over.
  struct Binding {
    Work work;
    Use use;
    const Plan* plan = nullptr;
    Route* route = nullptr;  // its groups are formed; null: not yet
  };
  // Kept by the cache's bit of a launch's first tensor, for launches that begin with the same agreement and have as
  // many bytes. Null: nothing is.
  const Binding* find_kept(const negotiate::Launch& launch) const {
    const auto bit = static_cast<std::size_t>(launch.tensors.front()->cache_bit);  // -1: beyond all others
    if (bit >= kept_.size()) return nullptr;
    const Kept& kept = kept_[bit];
    const bool is_it = kept.head == launch.tensors.front() && kept.bytes == launch.bytes && kept.rules == launch.rules;
    return is_it ? &kept.binding : nullptr;
  }
  void keep(const negotiate::Launch& launch, const Binding& binding) {
    const negotiate::AgreedPtr& head = launch.tensors.front();
    if (head->cache_bit < 0) return;
    const auto bit = static_cast<std::size_t>(head->cache_bit);
    if (bit >= kept_.size()) kept_.resize(bit + 1);
    kept_[bit] = {head, launch.bytes, launch.rules, binding};
  }
  // Every group, formed or forming, ends with `cause`.
  void abort(const Status& cause);
  // All of them, formed or forming.
  std::vector<execute::TransportGroup*> groups() const;
  // From a group of all members on host memory, of those that have formed; see TransportGroup::lend.
  Status lend(std::size_t bytes, execute::LentMemory** memory);

  const Options& options() const { return options_; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  bool is_member() const { return options_.rank >= 0; }

  // A launch of this set ended here. Launches may end out of order.
  void complete(std::uint64_t sequence);
  // Every launch up to this one ended here.
  std::uint64_t completed() const { return completed_; }
  std::uint64_t reported = 0;  // what the log knows of it
  std::uint64_t flushed = 0;   // of its ready tensors so many wait for no others, as this rank has said

 private:
  struct Group;
  std::string group_name(const execute::TransportContext& context, const GroupPlace& place) const;
  Status form(execute::TransportContext& context, const GroupPlace& place, std::unique_ptr<Group>* out) const;

  const Options options_;
  Store* const store_;
  // By transport, members and placement.
  std::map<std::tuple<std::string, std::vector<std::int32_t>, std::int32_t>, std::unique_ptr<Group>> groups_;
  std::map<Use, Route> routes_;  // over the groups
  WireMemory wire_memory_;
  struct Kept {
    negotiate::AgreedPtr head;
    std::size_t bytes = 0;
    std::uint32_t rules = 0;
    Binding binding;
  };
  std::vector<Kept> kept_;  // by bit
  std::uint64_t completed_ = 0;
  std::vector<std::uint64_t> early_;  // ended before an earlier one, ascending
};

}  // namespace roda::engine
