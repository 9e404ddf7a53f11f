// A rank of a job that is played.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/engine/engine.h"
#include "tests/seeds/flight.h"

namespace roda::seeds {

// One rank: its engine, and a program that submits the job's calls.
struct Rank {
  std::unique_ptr<engine::Engine> engine;
  control::ControlPlane* control = nullptr;  // the engine's
  bool is_alive = true;
  bool raises = false;            // soon: its program can't go on
  bool is_done = false;           // with all calls
  bool is_through = false;        // its program has ended
  std::vector<std::size_t> left;  // calls that it has not submitted, in order
  struct Pending {
    std::size_t call;
    std::uint64_t handle;
    engine::HandleState* state;
    std::unique_ptr<Flight> flight;
    bool is_called_back;  // on the engine's thread of continuations, which gives the handle back
  };
  std::vector<Pending> pending;
  std::map<std::int32_t, std::int32_t> made_sets;  // the engine's numbers
};

}  // namespace roda::seeds
