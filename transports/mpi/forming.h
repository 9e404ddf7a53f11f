// How a group gets its communicator.
//
// MPI_Comm_create_group involves the members alone but blocks until all have called it, so it runs on a thread, and
// only once all members are known to be ready. Two groups that form at once could wait for each other in MPI; therefore
// a process makes one communicator at a time, and members take their turns in the order of world ranks, as locks are
// taken in one order.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transports/mpi/operation.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// A call that blocks, on a thread of its own. What it works on is shared with that thread, so that one that never comes
// back can be left alone.
class BlockingJob {
 public:
  ~BlockingJob();
  void start(std::function<void()> body);
  // True when over; throws what the body threw.
  bool test();
  bool is_started() const { return state_ != nullptr; }
  bool is_running() const { return state_ != nullptr && !state_->is_over.load(); }

 private:
  struct State {
    std::function<void()> body;
    std::atomic<bool> is_over{false};
    std::exception_ptr failure;
  };
  std::shared_ptr<State> state_;
  std::thread thread_;
};

// A communicator of these ranks of MPI_COMM_WORLD, in this order. Blocks until all of them have called it.
MPI_Comm make_communicator(Runtime& runtime, const std::vector<int>& ranks, int tag);

// One thread at a time, the context's caller.
class Forming {
 public:
  // `state`: the group's, which outlives this.
  Forming(const roda_host* host, const roda_group_desc& desc, const sdk::GroupState& state);
  ~Forming();
  Forming(const Forming&) = delete;
  Forming& operator=(const Forming&) = delete;

  // One step; true when the communicator is there. Throws sdk::Failure.
  bool test();
  MPI_Comm communicator() const { return made_->communicator; }

 private:
  enum class Step { kStart, kIdentify, kTurn, kOthers, kMake, kReady };
  struct Made {
    MPI_Comm communicator{};
  };

  void identify();
  void judge();
  bool take_turn();
  bool has_turn_of(int member);
  void make();
  std::string stage() const;

  const roda_host* const host_;
  const roda_exchange exchange_;
  const sdk::GroupState& state_;

  Step step_ = Step::kStart;
  BlockingJob job_;
  sdk::Allgather gather_;
  std::vector<int> mpi_ranks_;  // of the members in MPI_COMM_WORLD
  std::vector<int> order_;      // members by world rank
  std::size_t place_ = 0;       // of this one in it
  bool holds_turn_ = false;
  std::shared_ptr<Made> made_ = std::make_shared<Made>();
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
