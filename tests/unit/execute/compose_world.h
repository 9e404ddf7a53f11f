// Ranks of a grid, each a thread with its groups over the loop transport.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "core/execute/stage_pool.h"
#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {

inline constexpr std::size_t kSlice = 512;  // so small that a thousand elements are many slices
inline constexpr std::uint32_t kLaunches = 2;

// Where the members of each group meet.
class Meeting {
 public:
  Exchange* of(const std::string& name, std::size_t members) {
    const std::scoped_lock lock(mutex_);
    auto& exchange = exchanges_[name];
    if (exchange == nullptr) exchange = std::make_unique<Exchange>(static_cast<int>(members));
    return exchange.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Exchange>> exchanges_;
};

// One rank of a grid, inside its thread.
class Member {
 public:
  Member(int rank, const plan::Grid& grid, std::string world, Meeting& meeting)
      : rank_(rank), grid_(grid), world_(std::move(world)), meeting_(meeting) {
    EXPECT_TRUE(TransportContext::create(roda_loop_transport(), test_host(), &context_).ok());
  }
  ~Member() {
    for (auto& [name, group] : groups_) group.pool.reset();
    groups_.clear();
  }

  int rank() const { return rank_; }
  int size() const { return grid_.ranks(); }

  std::unique_ptr<Stage> stage(const plan::Plan& plan, int root = 0) {
    const plan::Compiler compiler(plan, grid_, root, rank_);
    auto schedule = std::make_shared<const schedule::Schedule>(compiler.schedule(rank_));
    std::vector<StagePool*> pools(plan.stages.size());
    for (const schedule::Call& call : schedule->calls) {
      pools[static_cast<std::size_t>(call.stage)] = pool(*call.members);
    }
    return make_composed_stage(plan.name, schedule, pools, {kSlice, kLaunches, {}, {}});
  }

  Status run(Stage& stage, const StageArgs& args) const {
    RODA_RETURN_IF_ERROR(stage.start(args));
    bool done = false;
    Status status = stage.test(&done);
    while (!done) {
      if (context_->progress() == 0) std::this_thread::yield();
      status = stage.test(&done);
    }
    return status;
  }

  void abort_all(const Status& cause) {
    for (auto& [name, group] : groups_) group.group->abort(cause);
  }

  StageArgs args(int collective, std::size_t count, int dtype = RODA_FLOAT32, int op = RODA_SUM) {
    StageArgs args;
    args.collective = collective;
    args.dtype = dtype;
    args.op = op;
    args.count = count;
    args.launch = ++launch_;
    args.slot = static_cast<std::uint32_t>(launch_ % kLaunches);
    args.generation = 1;
    return args;
  }

 private:
  struct Group {
    std::unique_ptr<TransportGroup> group;
    std::unique_ptr<StagePool> pool;
  };
  StagePool* pool(const std::vector<std::int32_t>& members) {
    if (members.empty()) return nullptr;
    std::string name = world_;
    for (const std::int32_t member : members) name += "." + std::to_string(member);
    Group& made = groups_[name];
    if (made.pool != nullptr) return made.pool.get();
    const int index = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    Exchange* exchange = meeting_.of(name, members.size());
    EXPECT_TRUE(
        TransportGroup::create(*context_, {name, index, members, 1, 0, exchange->end(index)}, &made.group).ok());
    for (bool ready = false; !ready;) {
      const Status status = made.group->test(&ready);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!ready && context_->progress() == 0) std::this_thread::yield();
    }
    made.pool = std::make_unique<StagePool>(*made.group, tiny_options());
    return made.pool.get();
  }

  int rank_;
  const plan::Grid& grid_;
  std::string world_;
  Meeting& meeting_;
  std::unique_ptr<TransportContext> context_;
  std::map<std::string, Group> groups_;
  std::uint64_t launch_ = 0;
};

inline void run_grid(const plan::Grid& grid, const std::function<void(Member&)>& body) {
  static std::atomic<int> worlds{0};
  const std::string name = "grid" + std::to_string(++worlds);
  Meeting meeting;
  std::barrier<> left(grid.ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      Member member(rank, grid, name, meeting);
      body(member);
      left.arrive_and_wait();
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace roda::execute::testing
