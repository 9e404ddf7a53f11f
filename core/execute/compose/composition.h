// A collective composed of others over nested groups: reduce-scatter inside the host, allreduce across hosts, allgather
// inside the host, for instance. The data is cut into pieces; every piece goes through the same steps, and steps of
// different pieces overlap, so that the levels work at the same time.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/execute/stage.h"
#include "core/execute/stage_pool.h"

namespace roda::execute {

// Pieces of at most so many bytes; 0 without data.
inline std::size_t pieces_of(std::size_t bytes, std::size_t piece_bytes) {
  return (bytes + piece_bytes - 1) / piece_bytes;
}

// How a step gets at data on a device.
enum class StepData : std::uint8_t {
  kOnStream,  // it works there, on the launch's stream
  kStaged,    // in host memory; the data are copied there and back
  kDirect,    // it works there, but not on the stream
};

// One collective of a composition, over one group that this rank is in.
struct CompositionStep {
  StagePool* pool = nullptr;  // null: nothing for this rank to do
  std::int32_t collective = RODA_ALLREDUCE;
  std::string algorithm;
  std::int32_t root = 0;  // of the group, for broadcast
};

// What a composition does with one launch. Pure arithmetic over pointers, but for what it has to bring into order,
// which on a device is put on the launch's stream.
class Composition {
 public:
  virtual ~Composition() = default;

  // The same number of steps on every rank; the pools outlive the composition.
  const std::vector<CompositionStep>& steps() const { return steps_; }

  // Takes a launch on. `lanes`: pieces that may be in flight; piece k uses lane k % lanes, and its buffers.
  virtual Status begin(const StageArgs& args, std::uint32_t lanes) = 0;
  // Of the launch taken on; the same on every rank.
  virtual std::size_t pieces() const = 0;
  // Fills what the step works on: input, output, counts. The rest of the arguments is set already.
  virtual Status fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) = 0;
  // The last step of the piece has ended.
  virtual Status finish(std::size_t /*piece*/, std::uint32_t /*lane*/) { return {}; }

  // What works on a device's memory may prepare for the buffers that the composition has there. Before begin(); the
  // groups outlive the composition.
  void register_with(std::vector<TransportGroup*> groups) { groups_on_device_ = std::move(groups); }

 protected:
  // Of the composition's own.
  void register_buffer(DeviceMemory* memory) const {
    for (TransportGroup* group : groups_on_device_) memory->register_with(*group);
  }

  std::vector<CompositionStep> steps_;

 private:
  std::vector<TransportGroup*> groups_on_device_;
};

}  // namespace roda::execute
