// Ranks of a grid, each a thread with its groups over the loop transport. What they run was proved.
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

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "algorithms/schedule/verifier.h"
#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {

inline constexpr std::size_t kSlice = 512;  // so small that a thousand elements are many slices
inline constexpr std::uint32_t kLaunches = 2;

// Where the members of each group meet, and find the programs of all ranks.
class Meeting {
 public:
  using Programs = std::vector<std::shared_ptr<const schedule::Program>>;

  Exchange* of(const std::string& name, std::size_t members) {
    const std::scoped_lock lock(mutex_);
    auto& exchange = exchanges_[name];
    if (exchange == nullptr) exchange = std::make_unique<Exchange>(static_cast<int>(members));
    return exchange.get();
  }

  // Of one plan. The objects that are proved here are those that the stages run.
  Programs programs(const plan::Plan& plan, const plan::Grid& grid, int root) {
    const std::scoped_lock lock(mutex_);
    Programs& made = programs_[root];
    if (!made.empty()) return made;
    const plan::Compiler compiler(plan, grid, root);
    std::vector<const schedule::Program*> proved;
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      const auto program = std::make_shared<schedule::Program>();
      EXPECT_FALSE(compiler.compile(rank, program.get()));
      proved.push_back(program.get());
      made.push_back(program);
    }
    const auto violation = schedule::verify(proved);
    EXPECT_FALSE(violation) << violation->to_text();
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Exchange>> exchanges_;
  std::map<int, Programs> programs_;  // by root
};

// One rank of a grid, inside its thread.
class Member {
 public:
  Member(int rank, const plan::Grid& grid, std::string world, Meeting& meeting)
      : rank_(rank), grid_(grid), world_(std::move(world)), meeting_(meeting) {
    EXPECT_TRUE(TransportContext::create(roda_loop_transport(), test_host(), &context_).ok());
  }

  int rank() const { return rank_; }
  int size() const { return grid_.ranks(); }

  std::unique_ptr<Stage> stage(const plan::Plan& plan, int root = 0) {
    const auto program = meeting_.programs(plan, grid_, root)[at(rank_)];
    std::vector<TransportGroup*> groups(plan.stages.size());
    for (const schedule::Call& call : program->calls) groups[at(call.stage)] = group(*call.members);
    auto stage = make_composed_stage(plan.name, program, groups, options_, {kSlice, kLaunches, {}});
    EXPECT_EQ(&stage->program(), program.get());
    return stage;
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
    for (auto& [name, group] : groups_) group->abort(cause);
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
  TransportGroup* group(const std::vector<std::int32_t>& members) {
    std::string name = world_;
    for (const std::int32_t member : members) name += "." + std::to_string(member);
    std::unique_ptr<TransportGroup>& made = groups_[name];
    if (made != nullptr) return made.get();
    const int place = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    Exchange* exchange = meeting_.of(name, members.size());
    EXPECT_TRUE(TransportGroup::create(*context_, {name, place, members, 1, 0, exchange->end(place)}, &made).ok());
    for (bool ready = false; !ready;) {
      const Status status = made->test(&ready);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!ready && context_->progress() == 0) std::this_thread::yield();
    }
    return made.get();
  }

  int rank_;
  const plan::Grid& grid_;
  std::string world_;
  Meeting& meeting_;
  std::unique_ptr<TransportContext> context_;
  const ExecuteOptions options_ = tiny_options();
  std::map<std::string, std::unique_ptr<TransportGroup>> groups_;
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
