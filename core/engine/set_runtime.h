// What one process set has at run time on this rank: its groups over the transports, and how far its launches are.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/engine/shape.h"
#include "core/execute/group.h"
#include "core/execute/stage_pool.h"

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

  // The stages over that transport among the set's ranks in `scope`; the group is formed at the first call. *ready
  // false: ask again later. This rank is in the scope, with others.
  Status stages(execute::TransportContext& context, Scope scope, execute::StagePool** pool, bool* ready);
  // A composed stage of the plan and root that no launch uses, made by `make` if there is none yet.
  template <typename Make>
  Status composed(const std::string& plan, int root, Make make, execute::StageHandle* stage) {
    for (const auto& kept : composed_) {
      if (kept->busy || kept->root != root || kept->plan != plan) continue;
      kept->busy = true;
      *stage = execute::StageHandle(kept->stage.get(), execute::StageRelease{&kept->busy});
      return {};
    }
    auto made = std::make_unique<Composed>();
    RODA_RETURN_IF_ERROR(make(&made->stage));
    made->plan = plan;
    made->root = root;
    made->busy = true;
    *stage = execute::StageHandle(made->stage.get(), execute::StageRelease{&made->busy});
    composed_.push_back(std::move(made));
    return {};
  }
  // Every group, formed or forming, ends with `cause`.
  void abort(const Status& cause);

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
  struct Composed {
    std::string plan;
    int root = 0;
    std::unique_ptr<execute::Stage> stage;
    bool busy = false;
  };
  Options options_;
  Store* store_;
  std::map<std::pair<std::string, Scope>, std::unique_ptr<Group>> groups_;  // by transport
  std::vector<std::unique_ptr<Composed>> composed_;                         // over the groups
  std::uint64_t completed_ = 0;
  std::vector<std::uint64_t> early_;  // ended before an earlier one, ascending
};

}  // namespace roda::engine
