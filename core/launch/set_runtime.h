// What one process set has at run time on this rank: its groups over the transports, and how far its launches are.
//
// Owned by the holder of the baton.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/execute/compose/composed_stage.h"
#include "core/execute/group.h"
#include "core/execute/stage_pool.h"
#include "core/plan/shape.h"

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

class SetRuntime {
 public:
  struct Options {
    std::string name;  // equal on all members, unique per job and generation
    std::vector<std::int32_t> ranks;
    int rank = 0;  // of this process in the set; -1: not a member
    Shape shape;   // over hosts
    std::uint64_t generation = 0;
    std::uint64_t timeout_ns = 0;
    execute::ExecuteOptions execute;
  };
  SetRuntime(Options options, Store* store);
  ~SetRuntime();

  // Whose group, and where its members' memory lies.
  struct GroupPlace {
    std::vector<std::int32_t> members;  // of the set, in that order, this rank among others; empty: all of them
    std::string devices;                // of all members of the set, in words that are equal on them; "": host memory
    std::int32_t device = -1;           // of this rank
  };
  // The stages over that transport in the group. It is formed at the first call. *ready false: ask again later.
  Status stages(execute::TransportContext& context, const GroupPlace& place, execute::StagePool** pool, bool* ready);
  // A plan at work: what routes and composed stages are kept by.
  struct Use {
    std::uint32_t plan = 0;    // Plan::id
    int root = 0;              // of the set
    std::string_view devices;  // as in GroupPlace
    auto operator<=>(const Use&) const = default;
  };
  // What a plan runs over. Made by whoever asks for it first.
  struct Route {
    std::shared_ptr<const schedule::Schedule> schedule;  // of a composition, or of a collective that is cut into slices
    std::vector<std::vector<std::int32_t>> groups;  // [stage] members of the set; empty where there is nothing to do
    std::vector<execute::StagePool*> pools;         // once they are formed
    std::vector<execute::StepData> data;            // [stage] then, of data on devices: as this machine has it
  };
  Route& route(const Use& use) {
    const auto found = routes_.find(use);
    return found != routes_.end() ? found->second : routes_[KeptUse(use)];
  }
  // A composed stage of that use that no launch has, made by `make` if there is none yet.
  template <typename Make>
  Status composed(const Use& use, Make make, execute::StageHandle* stage) {
    for (const auto& kept : composed_) {
      if (kept->busy || kept->use != use) continue;
      kept->busy = true;
      *stage = execute::StageHandle(kept->stage.get(), execute::StageRelease{&kept->busy});
      return {};
    }
    auto made = std::make_unique<Composed>(use);
    RODA_RETURN_IF_ERROR(make(&made->stage));
    made->busy = true;
    *stage = execute::StageHandle(made->stage.get(), execute::StageRelease{&made->busy});
    composed_.push_back(std::move(made));
    return {};
  }
  // Every group, formed or forming, ends with `cause`.
  void abort(const Status& cause);
  // Groups of transports that offer collectives and nothing else: libraries' communicators, which hold memory of a
  // device for as long as they are there.
  std::vector<execute::TransportGroup*> communicators() const;
  // No launch comes any more, and no buffer is registered with them.
  void end_communicators();

  const Options& options() const { return options_; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  bool is_member() const { return options_.rank >= 0; }

  // A launch of this set ended here. Launches may end out of order.
  void complete(std::uint64_t sequence);
  // Every launch up to this one ended here.
  std::uint64_t completed() const { return completed_; }
  std::uint64_t reported = 0;  // what the log knows of it

 private:
  struct Group;
  // With text of its own.
  struct KeptUse {
    explicit KeptUse(const Use& use) : plan(use.plan), root(use.root), devices(use.devices) {}
    operator Use() const { return {plan, root, devices}; }  // NOLINT(google-explicit-constructor)
    std::uint32_t plan;
    int root;
    std::string devices;
  };
  struct Composed {
    explicit Composed(const Use& u) : use(u) {}
    KeptUse use;
    std::unique_ptr<execute::Stage> stage;
    bool busy = false;
  };
  Options options_;
  Store* store_;
  using Members = std::vector<std::int32_t>;
  std::string group_name(const execute::TransportContext& context, const GroupPlace& place) const;

  std::map<std::tuple<std::string, Members, std::string>, std::unique_ptr<Group>> groups_;  // by transport and devices
  struct ByUse {  // found without making a key of its own
    using is_transparent = void;
    bool operator()(const Use& a, const Use& b) const { return a < b; }
  };
  std::map<KeptUse, Route, ByUse> routes_;
  std::vector<std::unique_ptr<Composed>> composed_;  // over the groups
  std::uint64_t completed_ = 0;
  std::vector<std::uint64_t> early_;  // ended before an earlier one, ascending
};

}  // namespace roda::engine
